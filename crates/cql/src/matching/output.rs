//! The rows of a match until they are read: in memory, and beyond a limit in a temporary file.

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use idmatch_model::SeenAt;
use idmatch_store::{Error, ErrorKind, MatchQuery, Result, RowBatch};
use parking_lot::{Mutex, MutexGuard};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A batch is passed on when it has this many rows, or bytes of identifiers.
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 1 << 20;

/// All rows of a match. Rows of one task keep their order.
pub(super) struct Output {
    query: MatchQuery,
    /// Bytes that stay in memory.
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    batches: Vec<RecordBatch>,
    bytes: usize,
    /// Later rows.
    spilled: Option<Spilled>,
}

struct Spilled {
    /// It has no name, and is for the owner only.
    file: Arc<File>,
    writer: StreamWriter<BufWriter<File>>,
}

impl Output {
    pub(super) fn new(query: MatchQuery, most: usize) -> Output {
        Output { query, most, kept: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    fn push(&self, batch: RecordBatch) -> Result<()> {
        let mut kept = self.lock();
        if kept.bytes < self.most {
            kept.bytes += batch.get_array_memory_size();
            kept.batches.push(batch);
            return Ok(());
        }
        if kept.spilled.is_none() {
            let file = Arc::new(tempfile::tempfile().map_err(unspilled)?);
            let writer = BufWriter::new(file.try_clone().map_err(unspilled)?);
            let writer = StreamWriter::try_new(writer, &self.query.schema()).map_err(unspilled)?;
            kept.spilled = Some(Spilled { file, writer });
        }
        match &mut kept.spilled {
            Some(spilled) => spilled.writer.write(&batch).map_err(unspilled),
            None => Ok(()),
        }
    }

    /// No more rows follow.
    pub(super) fn finish(&self) -> Result<()> {
        match &mut self.lock().spilled {
            Some(spilled) => spilled.writer.finish().map_err(unspilled),
            None => Ok(()),
        }
    }

    /// Returns all rows, in the order in which they came.
    pub(super) fn read(&self, mut take: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let (batches, file) = {
            let kept = self.lock();
            (kept.batches.clone(), kept.spilled.as_ref().map(|spilled| spilled.file.clone()))
        };
        batches.into_iter().try_for_each(&mut take)?;
        let Some(file) = file else { return Ok(()) };
        let file = FromStart { file: &file, offset: 0 };
        for batch in StreamReader::try_new(BufReader::new(file), None).map_err(unspilled)? {
            take(batch.map_err(unspilled)?)?;
        }
        Ok(())
    }
}

/// Reads a file from its start, whoever else reads or writes it.
struct FromStart<'f> {
    file: &'f File,
    offset: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(piece, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

fn unspilled(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let what = "cannot keep the rows of a match in the folder for temporary files (TMPDIR)";
    Error::with_source(ErrorKind::Io, what, e)
}

/// Collects the rows of one task into batches.
pub(super) struct RowBuilder<'o> {
    output: &'o Output,
    rows: RowBatch,
}

impl<'o> RowBuilder<'o> {
    pub(super) fn new(output: &'o Output) -> RowBuilder<'o> {
        let rows = RowBatch::of_query(&output.query, BATCH_ROWS, BATCH_BYTES);
        RowBuilder { output, rows }
    }

    pub(super) fn push(&mut self, key: &str, value: &str, seen_at: SeenAt) -> Result<()> {
        match self.rows.push(key, value, seen_at)? {
            Some(batch) => self.output.push(batch),
            None => Ok(()),
        }
    }

    /// Adds a row of a positional match.
    pub(super) fn push_position(&mut self, row: u32, value: &str, seen_at: SeenAt) -> Result<()> {
        let is_full = self.rows.push_position(row, |text| text.extend(value.bytes()), seen_at);
        if is_full { self.send() } else { Ok(()) }
    }

    /// Passes on the remaining rows.
    pub(super) fn finish(mut self) -> Result<()> {
        self.send()
    }

    fn send(&mut self) -> Result<()> {
        match self.rows.take()? {
            Some(batch) => self.output.push(batch),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use idmatch_model::{Pick, Side, Window};

    const QUERY: MatchQuery =
        MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: false };

    #[test]
    fn what_is_too_much_for_memory_waits_in_a_file() {
        let read = |output: &Output| {
            let mut keys = Vec::new();
            let take = |batch: RecordBatch| {
                keys.extend(batch.column(0).as_string::<i32>().iter().flatten().map(str::to_owned));
                Ok(())
            };
            output.read(take).unwrap();
            keys
        };
        for (most, is_in_file) in [(1, true), (1 << 20, false)] {
            let output = Output::new(QUERY, most);
            for key in ["a", "b", "c"] {
                let mut rows = RowBuilder::new(&output);
                rows.push(key, "value", SeenAt::EPOCH).unwrap();
                rows.finish().unwrap();
            }
            output.finish().unwrap();
            assert_eq!(output.lock().spilled.is_some(), is_in_file);
            assert_eq!(read(&output), ["a", "b", "c"]);
            assert_eq!(read(&output), ["a", "b", "c"]);
        }
    }
}
