//! Records the written chunks of a load, so that a repeated load continues after a crash.
//!
//! A chunk is identified by the hash of its rows: the same source gives the same chunks again, and
//! another source gives others. A load checks some rows of a chunk before it skips it, because
//! tables may have been emptied or restored meanwhile. A load that ends deletes its records.
//!
//! A load is correct without these records: a failure here costs only the time that they would have
//! saved.

use crate::context::TableContext;
use crate::error::unexpected;
use crate::read::row::row as read_row;
use crate::row_buffer::RowBuffer;
use crate::schema::metadata_cache::TableMetadata;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{Side, Window};
use idmatch_store::{Error, Result, now};
use std::collections::HashSet;
use std::future::ready;
use std::sync::Arc;
use tracing::debug;

/// Concurrent requests about the chunks of a load.
const CONCURRENT_CHECKS: usize = 16;
/// Rows of a chunk that are checked, in both directions.
const LOOKED_FOR: usize = 16;

/// The chunks of a load, by hash.
pub(crate) struct LoadProgress {
    /// Chunks that an unfinished load has written.
    written: HashSet<u128>,
    /// Chunks of this load.
    met: Vec<u128>,
}

impl LoadProgress {
    /// Reads the records. Cost: a request.
    pub(crate) async fn read(context: &Arc<TableContext>) -> Result<LoadProgress> {
        let what = context.what();
        let mut pages = context.pages(&context.loads().chunks, (context.uuid(),));
        let mut written = HashSet::new();
        while let Some(page) = pages.next().await? {
            page.each(|(chunk,): (&[u8],)| {
                let chunk = <[u8; 16]>::try_from(chunk).map_err(|e| unexpected(&what, e))?;
                written.insert(u128::from_be_bytes(chunk));
                Ok(())
            })?;
        }
        Ok(LoadProgress { written, met: Vec::new() })
    }

    /// The record to write once the chunk is written; `None` if it is already written.
    pub(crate) async fn meet(
        &mut self,
        context: &Arc<TableContext>,
        rows: &RowBuffer,
    ) -> Result<Option<ChunkRecord>> {
        let chunk = rows.hash();
        self.met.push(chunk);
        if self.written.contains(&chunk) && is_there(context, rows).await? {
            return Ok(None);
        }
        Ok(Some(ChunkRecord(chunk)))
    }

    /// Deletes the records of a finished load. Servers expire the remaining records in a week.
    pub(crate) async fn end(self, context: &Arc<TableContext>) {
        let (what, id) = (context.what(), context.uuid());
        let deletions = stream::iter(self.met).map(|chunk| {
            let values = (id, chunk.to_be_bytes().to_vec());
            context.client.write(&what, &context.loads().delete, values)
        });
        let deletions = deletions.buffer_unordered(CONCURRENT_CHECKS);
        let failed: Vec<Error> = deletions.filter_map(|done| ready(done.err())).collect().await;
        if let Some(error) = failed.first() {
            let (table, chunks) = (context.name(), failed.len());
            debug!(%table, chunks, %error, "records of a load are not deleted");
        }
    }
}

/// The record of a chunk, by its hash.
pub(crate) struct ChunkRecord(u128);

impl ChunkRecord {
    /// Records that the chunk is written.
    pub(crate) async fn write(self, context: &TableContext) {
        let values = (context.uuid(), self.0.to_be_bytes().to_vec());
        // Without the record, a repeated load writes the chunk again.
        let written = context.client.write(&context.what(), &context.loads().insert, values).await;
        if let Err(error) = written {
            debug!(table = %context.name(), %error, "chunk of a load is not recorded");
        }
    }
}

/// Whether some rows of a chunk are stored. Rows that are not visible count as stored.
async fn is_there(context: &Arc<TableContext>, rows: &RowBuffer) -> Result<bool> {
    let metadata: &TableMetadata = &*context.metadata_cache.current().await?;
    let visible = metadata.visible_range(Window::ALL, now());
    let asked =
        (0..LOOKED_FOR).flat_map(|n| Side::BOTH.map(|by| (n * rows.len() / LOOKED_FOR, by)));
    let found: Vec<bool> = stream::iter(asked)
        .map(async |(row, by)| {
            let ((key, value), seen_at) = (rows.pair(row, by), rows.seen_at(row));
            if !metadata.shows(&visible, by, (key, value, seen_at)) {
                return Ok::<bool, Error>(true);
            }
            let date = read_row(context, metadata, by, (key, value, seen_at)).await?;
            Ok(date.is_some_and(|date| date >= seen_at))
        })
        .buffer_unordered(CONCURRENT_CHECKS)
        .try_collect()
        .await?;
    Ok(found.into_iter().all(|is_there| is_there))
}
