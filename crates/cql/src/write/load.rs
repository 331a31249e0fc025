//! Reads observations from a source and writes them in chunks: it reads one chunk while it writes
//! another.
//!
//! Invariant: chunks are acknowledged in the order of the source. So the rows that may be applied or not are
//! one range: the rows that were taken and are not acknowledged.

use crate::client::Use;
use crate::context::TableContext;
use crate::row_buffer::RowBuffer;
use crate::schema::bucket;
use crate::write::batch::write;
use crate::write::load_progress::{ChunkRecord, LoadProgress};
use idmatch_store::{
    Call, Error, ErrorFields, ErrorKind, ObservationSource, Result, RowNumbers, Unit,
};
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tracing::debug;

/// A chunk of a load has about this many rows for each bucket, within limits. Two chunks are in memory at
/// once.
const ROWS_PER_BUCKET: usize = bucket::ROWS / 10;
const LOAD_ROWS: RangeInclusive<usize> = 50_000..=4_000_000;
const LOAD_BYTES: usize = 256 << 20;
/// Rows of an upsert's chunk: few, so that it is acknowledged soon.
const UPSERT_ROWS: usize = 20_000;

/// Loads all rows of a source. Rows are visible as they are written. A repeated load skips the
/// chunks that an unfinished one has written. A caller that stops at the first bad row wants
/// nothing published: all rows then wait in memory until the last one is valid.
///
/// # Errors
/// `UnknownOutcome` says which of the source's rows may be written or not.
pub(crate) fn load(
    context: &Arc<TableContext>,
    source: &dyn ObservationSource,
    call: &Call,
) -> Result<()> {
    let mut chunks = Chunks::new(context, call, "load");
    if source.is_strict() {
        return chunks.run(source, (usize::MAX, usize::MAX));
    }
    let wanted = context.buckets.number.unsigned_abs() as usize * ROWS_PER_BUCKET;
    let most_rows = wanted.clamp(*LOAD_ROWS.start(), *LOAD_ROWS.end());
    chunks.progress = Some(chunks.wait(Use::Read, LoadProgress::read(context))?);
    chunks.run(source, (most_rows, LOAD_BYTES))?;
    if let Some(progress) = chunks.progress.take() {
        let ended = async {
            progress.end(context).await;
            Ok(())
        };
        // The rows are written, even if the records stay.
        if let Err(error) = chunks.wait(Use::Read, ended) {
            debug!(table = %context.name(), %error, "records of a load are not deleted");
        }
    }
    Ok(())
}

/// Upserts all rows of a source. Errors as of [`load`].
pub(crate) fn upsert(
    context: &Arc<TableContext>,
    source: &dyn ObservationSource,
    call: &Call,
) -> Result<()> {
    Chunks::new(context, call, "upsert").run(source, (UPSERT_ROWS, LOAD_BYTES))
}

/// The chunks of a source.
struct Chunks<'c> {
    context: &'c Arc<TableContext>,
    call: &'c Call,
    stage: &'static str,
    progress: Option<LoadProgress>,
    writing: Option<JoinHandle<Result<()>>>,
    /// The rows that were taken from the source and are not acknowledged. The first `sent` of them were sent
    /// or found to be written.
    open: RowNumbers,
    sent: usize,
}

impl<'c> Chunks<'c> {
    fn new(context: &'c Arc<TableContext>, call: &'c Call, stage: &'static str) -> Chunks<'c> {
        let (progress, writing, open, sent) = (None, None, RowNumbers::default(), 0);
        Chunks { context, call, stage, progress, writing, open, sent }
    }

    /// Writes all rows, in chunks of about this many rows and bytes.
    fn run(&mut self, source: &dyn ObservationSource, most: (usize, usize)) -> Result<()> {
        let read = self.read(source, most);
        // An error about sent rows comes before the error that ended the source.
        self.finish()?;
        let last = read?;
        if last.is_empty() {
            return Ok(());
        }
        self.sent = self.open.len();
        let written = self.wait(Use::Write, write(self.context, last));
        self.acknowledge(written)
    }

    /// Writes each chunk once the one before is written; returns the remaining rows at the end.
    fn read(&mut self, source: &dyn ObservationSource, most: (usize, usize)) -> Result<RowBuffer> {
        let mut rows = RowBuffer::default();
        loop {
            self.call.check()?;
            let Some(batch) = source.next_batch()? else { return Ok(rows) };
            self.open.extend(&batch.rows);
            rows.extend(&batch)?;
            if rows.len() >= most.0 || rows.text_bytes() >= most.1 {
                self.finish()?;
                self.send(std::mem::take(&mut rows))?;
            }
        }
    }

    /// Begins to write a chunk, unless an earlier load has written it.
    fn send(&mut self, chunk: RowBuffer) -> Result<()> {
        let (context, client) = (self.context, &self.context.client);
        let record = match &mut self.progress {
            Some(progress) => {
                let met = progress.meet(context, &chunk);
                Some(client.wait_unless(self.call, Use::Read, met)?)
            }
            None => None,
        };
        self.sent = self.open.len();
        match record {
            Some(None) => self.acknowledge(Ok(()))?,
            record => {
                let writing = write_chunk(Arc::clone(context), chunk, record.flatten());
                self.writing = Some(client.start(writing));
            }
        }
        Ok(())
    }

    /// Waits for the chunk that is being written.
    fn finish(&mut self) -> Result<()> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        let abort = writing.abort_handle();
        let written = self.wait(Use::Write, async {
            writing.await.unwrap_or_else(|e| {
                Err(Error::with_source(ErrorKind::UnknownOutcome, "a write ended early", e))
            })
        });
        // A write that is given up sends no more.
        abort.abort();
        self.acknowledge(written)
    }

    fn acknowledge(&mut self, written: Result<()>) -> Result<()> {
        match written {
            Ok(()) => {
                let rows = std::mem::take(&mut self.sent);
                self.open = self.open.slice(rows..usize::MAX);
                // The call is checked before the next rows are taken, so its end is ignored here.
                self.call.report(self.stage, rows as u64, Unit::Rows).ok();
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::UnknownOutcome => {
                let rows = self.open.clone();
                Err(e.with_fields(ErrorFields::UnknownOutcome { rows }))
            }
            Err(e) => Err(e),
        }
    }

    fn wait<T>(&self, used: Use, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.context.client.wait_unless(self.call, used, work)
    }
}

async fn write_chunk(
    table: Arc<TableContext>,
    chunk: RowBuffer,
    record: Option<ChunkRecord>,
) -> Result<()> {
    write(&table, chunk).await?;
    if let Some(record) = record {
        record.write(&table).await;
    }
    Ok(())
}
