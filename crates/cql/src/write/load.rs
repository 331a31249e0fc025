//! Takes observations from a source and writes them in chunks, reading one while another is written.

use crate::context::Handle;
use crate::read::row_buffer::Rows;
use crate::schema::bucket;
use crate::write::batch::write;
use crate::write::load_progress::{Note, Progress};
use idmatch_store::{BatchSource, Error, ErrorKind, Ingest, Result};
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// A chunk of a load: large, so that about so many of its rows share a bucket, within bounds. Two are
/// in memory at once.
const ROWS_PER_BUCKET: usize = bucket::ROWS / 10;
const LOAD_ROWS: RangeInclusive<usize> = 50_000..=4_000_000;
const LOAD_BYTES: usize = 256 << 20;
/// A chunk of an upsert: small, so that it is acknowledged soon.
const UPSERT_ROWS: usize = 20_000;

/// Loads all rows of a source. They are seen as they are written; a load that is repeated leaves out the
/// chunks that one before has written, if that did not end. Where the caller wants to stop at the first bad
/// row with nothing published, all rows are judged before the first is written, and wait in memory.
pub(crate) fn load(
    handle: &Arc<Handle>,
    source: &mut dyn BatchSource,
    ingest: &Ingest<'_>,
) -> Result<()> {
    if !ingest.is_strict() {
        let known = handle.client.wait(handle.state.current())?;
        let wanted = known.definition.buckets.unsigned_abs() as usize * ROWS_PER_BUCKET;
        let most_rows = wanted.clamp(*LOAD_ROWS.start(), *LOAD_ROWS.end());
        let mut progress = handle.client.wait(Progress::read(handle))?;
        run(handle, source, ingest, most_rows, Some(&mut progress))?;
        handle.client.wait(progress.end(handle));
        return Ok(());
    }
    let mut rows = Rows::default();
    while let Some(batch) = source.next_batch()? {
        rows.extend(&ingest.observations(&batch)?)?;
    }
    handle.client.wait(write(handle, rows))
}

/// Upserts all rows of a source.
pub(crate) fn upsert(
    handle: &Arc<Handle>,
    source: &mut dyn BatchSource,
    ingest: &Ingest<'_>,
) -> Result<()> {
    run(handle, source, ingest, UPSERT_ROWS, None)
}

fn run(
    handle: &Arc<Handle>,
    source: &mut dyn BatchSource,
    ingest: &Ingest<'_>,
    most_rows: usize,
    progress: Option<&mut Progress>,
) -> Result<()> {
    let mut writing = None;
    let read = read_chunks(handle, (source, ingest), most_rows, progress, &mut writing);
    // What became of rows that were sent is worse to miss than why no more came.
    finish(handle, writing)?;
    let last = read?;
    if last.is_empty() { Ok(()) } else { handle.client.wait(write(handle, last)) }
}

type Writing = Option<JoinHandle<Result<()>>>;

/// Starts to write each chunk when the one before is written; gives what is left at the end.
fn read_chunks(
    handle: &Arc<Handle>,
    (source, ingest): (&mut dyn BatchSource, &Ingest<'_>),
    most_rows: usize,
    mut progress: Option<&mut Progress>,
    writing: &mut Writing,
) -> Result<Rows> {
    let mut rows = Rows::default();
    while let Some(batch) = source.next_batch()? {
        rows.extend(&ingest.observations(&batch)?)?;
        if rows.len() >= most_rows || rows.text_bytes() >= LOAD_BYTES {
            finish(handle, writing.take())?;
            let chunk = std::mem::take(&mut rows);
            let note = match progress.as_mut() {
                Some(progress) => match handle.client.wait(progress.meet(handle, &chunk))? {
                    // A load before has written it.
                    None => continue,
                    note => note,
                },
                None => None,
            };
            let table = Arc::clone(handle);
            *writing = Some(handle.client.start(write_chunk(table, chunk, note)));
        }
    }
    Ok(rows)
}

async fn write_chunk(table: Arc<Handle>, chunk: Rows, note: Option<Note>) -> Result<()> {
    write(&table, chunk).await?;
    if let Some(note) = note {
        note.write(&table).await;
    }
    Ok(())
}

fn finish(handle: &Handle, writing: Writing) -> Result<()> {
    let Some(writing) = writing else { return Ok(()) };
    handle.client.wait(writing).unwrap_or_else(|e| {
        Err(Error::with_source(ErrorKind::UnknownOutcome, "a write ended early", e))
    })
}
