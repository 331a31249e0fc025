//! Reads observations from a source and writes them in chunks: it reads one chunk while it writes
//! another.

use crate::context::TableContext;
use crate::row_buffer::Rows;
use crate::schema::bucket;
use crate::write::batch::write;
use crate::write::load_progress::{ChunkRecord, Progress};
use idmatch_store::{Error, ErrorKind, ObservationSource, Result};
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Rows of a load's chunk: many, so that about this many rows share a bucket, within limits. Two
/// chunks are in memory at once.
const ROWS_PER_BUCKET: usize = bucket::ROWS / 10;
const LOAD_ROWS: RangeInclusive<usize> = 50_000..=4_000_000;
const LOAD_BYTES: usize = 256 << 20;
/// Rows of an upsert's chunk: few, so that it is acknowledged soon.
const UPSERT_ROWS: usize = 20_000;

/// Loads all rows of a source. Rows are visible as they are written. A repeated load skips the
/// chunks that an unfinished one has written. A caller that stops at the first bad row wants
/// nothing published: all rows then wait in memory until the last one is valid.
pub(crate) fn load(context: &Arc<TableContext>, source: &dyn ObservationSource) -> Result<()> {
    if !source.is_strict() {
        let metadata = context.client.wait(context.metadata_cache.current())?;
        let wanted = metadata.definition.buckets.unsigned_abs() as usize * ROWS_PER_BUCKET;
        let most_rows = wanted.clamp(*LOAD_ROWS.start(), *LOAD_ROWS.end());
        let mut progress = context.client.wait(Progress::read(context))?;
        run(context, source, most_rows, Some(&mut progress))?;
        context.client.wait(progress.end(context));
        return Ok(());
    }
    let mut rows = Rows::default();
    while let Some(batch) = source.next_batch()? {
        rows.extend(&batch)?;
    }
    context.client.wait(write(context, rows))
}

/// Upserts all rows of a source.
pub(crate) fn upsert(context: &Arc<TableContext>, source: &dyn ObservationSource) -> Result<()> {
    run(context, source, UPSERT_ROWS, None)
}

fn run(
    context: &Arc<TableContext>,
    source: &dyn ObservationSource,
    most_rows: usize,
    progress: Option<&mut Progress>,
) -> Result<()> {
    let mut writing = None;
    let read = read_chunks(context, source, most_rows, progress, &mut writing);
    // The fate of sent rows is more important than the reason why no more came.
    finish(context, writing)?;
    let last = read?;
    if last.is_empty() { Ok(()) } else { context.client.wait(write(context, last)) }
}

type Writing = Option<JoinHandle<Result<()>>>;

/// Writes each chunk once the one before is written; returns the remaining rows at the end.
fn read_chunks(
    context: &Arc<TableContext>,
    source: &dyn ObservationSource,
    most_rows: usize,
    mut progress: Option<&mut Progress>,
    writing: &mut Writing,
) -> Result<Rows> {
    let mut rows = Rows::default();
    while let Some(batch) = source.next_batch()? {
        rows.extend(&batch)?;
        if rows.len() >= most_rows || rows.text_bytes() >= LOAD_BYTES {
            finish(context, writing.take())?;
            let chunk = std::mem::take(&mut rows);
            let chunk_record = match progress.as_mut() {
                Some(progress) => match context.client.wait(progress.meet(context, &chunk))? {
                    // An earlier load has written it.
                    None => continue,
                    chunk_record => chunk_record,
                },
                None => None,
            };
            let table = Arc::clone(context);
            *writing = Some(context.client.start(write_chunk(table, chunk, chunk_record)));
        }
    }
    Ok(rows)
}

async fn write_chunk(
    table: Arc<TableContext>,
    chunk: Rows,
    chunk_record: Option<ChunkRecord>,
) -> Result<()> {
    write(&table, chunk).await?;
    if let Some(chunk_record) = chunk_record {
        chunk_record.write(&table).await;
    }
    Ok(())
}

fn finish(context: &TableContext, writing: Writing) -> Result<()> {
    let Some(writing) = writing else { return Ok(()) };
    context.client.wait(writing).unwrap_or_else(|e| {
        Err(Error::with_source(ErrorKind::UnknownOutcome, "a write ended early", e))
    })
}
