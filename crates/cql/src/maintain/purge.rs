//! Purges expired, superseded and erased rows, as a compaction does in a directory.
//!
//! Records the hot keys that it meets.

use crate::context::{DirectionRow, TableContext};
use crate::read::scan::{RowVisitor, ScanCall, scan_stored};
use crate::read::shard_merge::{self, HotKeyReader, RowSelection};
use crate::row_buffer::RowBuffer;
use crate::schema::metadata_cache::TableMetadata;
use crate::write::delete::{delete_row, delete_shard_row};
use crate::write::hot_keys::publish_hot_keys;
use crate::write::timestamp::{erased_at, purged_at};
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{Keep, SeenAt, Side};
use idmatch_store::{Call, Result, now};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Concurrent deletes of one task: they share the servers with lookups and writes.
const CONCURRENT_DELETES: usize = 16;

/// Purges rows that are erased, or older than every retention of the last day. Records the hot keys that it
/// meets. Returns the number of rows, of both directions together.
/// Cost: a scan of both directions.
pub(crate) async fn purge(context: &Arc<TableContext>, call: &Call) -> Result<u64> {
    let metadata = context.metadata_cache.refresh().await?;
    let kept_from = metadata.definition.kept_from(now());
    let removed = Arc::new(AtomicU64::new(0));
    for by in Side::BOTH {
        let visitor = Purge {
            context: Arc::clone(context),
            metadata: Arc::clone(&metadata),
            kept_from,
            by,
            removed: Arc::clone(&removed),
        };
        let met = scan_stored(context, by, ScanCall(call.clone(), "compact"), visitor).await?;
        publish_hot_keys(context, by, met).await?;
        for key in shard_merge::keys(context, &metadata, by).await? {
            let rows = purge_hot(context, &metadata, kept_from, (by, &key)).await?;
            removed.fetch_add(rows, Relaxed);
        }
    }
    Ok(removed.load(Relaxed))
}

/// Removes rows.
struct Purge {
    context: Arc<TableContext>,
    metadata: Arc<TableMetadata>,
    kept_from: SeenAt,
    by: Side,
    removed: Arc<AtomicU64>,
}

impl RowVisitor for Purge {
    fn row(&self, key: &str, value: &str, seen_at: SeenAt) -> bool {
        removed_at(&self.metadata, self.kept_from, self.by, (key, value, seen_at)).is_some()
    }

    async fn batch(&self, rows: RowBuffer) -> Result<()> {
        let remove = async |row: usize| {
            let ((key, value), seen_at) = (rows.pair(row, Side::Id), rows.seen_at(row));
            let row = (key, value, seen_at);
            match removed_at(&self.metadata, self.kept_from, self.by, row) {
                Some(at) => delete_row(&self.context, &self.metadata, self.by, row, at).await,
                None => Ok(()),
            }
        };
        let removed = stream::iter(0..rows.len()).map(remove).buffer_unordered(CONCURRENT_DELETES);
        removed.try_collect::<()>().await?;
        self.removed.fetch_add(rows.len() as u64, Relaxed);
        Ok(())
    }
}

/// The timestamp that removes a row; `None` for one that stays.
fn removed_at(
    metadata: &TableMetadata,
    kept_from: SeenAt,
    by: Side,
    (key, value, seen_at): DirectionRow<'_>,
) -> Option<i64> {
    if metadata.erasures.hides(by, key, value, seen_at) {
        return Some(erased_at(seen_at));
    }
    (seen_at < kept_from).then(|| purged_at(metadata, seen_at))
}

/// Removes rows of a hot key, and with keep="last" the older rows of each pair; returns their number.
async fn purge_hot(
    context: &Arc<TableContext>,
    metadata: &TableMetadata,
    kept_from: SeenAt,
    (by, key): (Side, &str),
) -> Result<u64> {
    let Some(shards) = metadata.hot.shards(by, key) else { return Ok(0) };
    let (mut given, mut removed) = (HashSet::new(), 0);
    let mut places =
        HotKeyReader::new(context, metadata, (by, key), None, RowSelection::Stored).await?;
    while let Some(rows) = places.next().await? {
        let removals = rows.iter().filter_map(|(value, seen_at)| {
            let is_newest =
                metadata.definition.keep == Keep::All || given.insert(context.buckets.hash(value));
            let at = removed_at(metadata, kept_from, by, (key, value, *seen_at));
            (!is_newest || at.is_some()).then_some((value.as_str(), *seen_at, at))
        });
        let removals: Vec<_> = removals.collect();
        removed += removals.len() as u64;
        stream::iter(removals)
            .map(async |(value, seen_at, at)| match at {
                None => {
                    // Deletes the row from one shard only: a client that knows fewer shards still needs it
                    // elsewhere.
                    let at = purged_at(metadata, seen_at);
                    delete_shard_row(context, (by, key, shards), (value, seen_at), at).await
                }
                Some(at) => delete_row(context, metadata, by, (key, value, seen_at), at).await,
            })
            .buffer_unordered(CONCURRENT_DELETES)
            .try_for_each(async |()| Ok(()))
            .await?;
    }
    Ok(removed)
}
