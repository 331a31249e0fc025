//! The rows of a match, kept until they are read: in memory, and beyond a bound in a temporary file.

use arrow_array::builder::StringBuilder;
use arrow_array::{RecordBatch, TimestampMillisecondArray};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};
use idmatch_model::{SeenAt, Side};
use idmatch_store::{Error, ErrorKind, Result, match_schema};
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// Results that stay in memory, in bytes.
const MEMORY_BYTES: usize = 128 << 20;
/// Rows, or bytes of identifiers, that one task collects before it hands them over.
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 1 << 20;

/// All rows of a match. Rows that one task hands over keep their order.
pub(super) struct Output {
    schema: SchemaRef,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    batches: Vec<RecordBatch>,
    bytes: usize,
    /// What came later.
    spilled: Option<Spilled>,
}

struct Spilled {
    file: NamedTempFile,
    writer: StreamWriter<BufWriter<File>>,
}

impl Output {
    pub(super) fn new(by: Side) -> Output {
        Output { schema: match_schema(by), kept: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, batch: RecordBatch) -> Result<()> {
        let mut kept = self.lock();
        if kept.bytes < MEMORY_BYTES {
            kept.bytes += batch.get_array_memory_size();
            kept.batches.push(batch);
            return Ok(());
        }
        if kept.spilled.is_none() {
            let file = NamedTempFile::new().map_err(unspilled)?;
            let writer = BufWriter::new(file.reopen().map_err(unspilled)?);
            let writer = StreamWriter::try_new(writer, &self.schema).map_err(unspilled)?;
            kept.spilled = Some(Spilled { file, writer });
        }
        match &mut kept.spilled {
            Some(spilled) => spilled.writer.write(&batch).map_err(unspilled),
            None => Ok(()),
        }
    }

    /// There are no more rows.
    pub(super) fn finish(&self) -> Result<()> {
        match &mut self.lock().spilled {
            Some(spilled) => spilled.writer.finish().map_err(unspilled),
            None => Ok(()),
        }
    }

    /// Gives all rows, in the order in which they came.
    pub(super) fn read(&self, mut take: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let (batches, file) = {
            let kept = self.lock();
            let file = kept.spilled.as_ref().map(|spilled| spilled.file.reopen());
            (kept.batches.clone(), file.transpose().map_err(unspilled)?)
        };
        batches.into_iter().try_for_each(&mut take)?;
        let Some(file) = file else { return Ok(()) };
        for batch in StreamReader::try_new(BufReader::new(file), None).map_err(unspilled)? {
            take(batch.map_err(unspilled)?)?;
        }
        Ok(())
    }
}

fn unspilled(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let what = "cannot keep the rows of a match in the folder for temporary files (TMPDIR)";
    Error::with_source(ErrorKind::Io, what, e)
}

/// The rows of one task on their way into batches.
pub(super) struct RowBuilder<'o> {
    output: &'o Output,
    keys: StringBuilder,
    values: StringBuilder,
    dates: Vec<i64>,
    bytes: usize,
}

impl<'o> RowBuilder<'o> {
    pub(super) fn new(output: &'o Output) -> RowBuilder<'o> {
        let (keys, values) = (StringBuilder::new(), StringBuilder::new());
        RowBuilder { output, keys, values, dates: Vec::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, key: &str, value: &str, seen_at: SeenAt) -> Result<()> {
        self.keys.append_value(key);
        self.values.append_value(value);
        self.dates.push(seen_at.millis_i64());
        self.bytes += key.len() + value.len();
        if self.dates.len() < BATCH_ROWS && self.bytes < BATCH_BYTES { Ok(()) } else { self.send() }
    }

    /// Hands over what is left.
    pub(super) fn finish(mut self) -> Result<()> {
        if self.dates.is_empty() { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> Result<()> {
        self.bytes = 0;
        let dates = TimestampMillisecondArray::from(std::mem::take(&mut self.dates));
        let columns: Vec<arrow_array::ArrayRef> = vec![
            Arc::new(self.keys.finish()),
            Arc::new(self.values.finish()),
            Arc::new(dates.with_timezone("UTC")),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&self.output.schema), columns);
        self.output.push(batch.map_err(|e: ArrowError| {
            Error::with_source(ErrorKind::InvalidArgument, "cannot build a match batch", e)
        })?)
    }
}
