//! Purges expired, superseded and erased rows: what a compaction does in a directory.
//!
//! Records the hot keys that it meets.

use crate::context::TableContext;
use crate::read::scan::{RowVisitor, ScanCall, scan_stored};
use crate::read::shard_merge::{self, HotRows, Which};
use crate::row_buffer::Rows;
use crate::schema::metadata_cache::{TableMetadata, Visible};
use crate::write::delete::{delete_row, delete_shard_row};
use crate::write::hot_keys::publish_hot_keys;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{Keep, SeenAt, Side, Window};
use idmatch_store::{Call, Result, now};
use std::collections::HashSet;
use std::sync::Arc;
use twox_hash::XxHash3_128;

/// Concurrent deletes of one task: they share the servers with lookups and writes.
const CONCURRENT_DELETES: usize = 16;

/// Purges hidden rows: erased, or older than the retention. Records the hot keys that it meets.
/// Cost: a scan of both directions.
pub(crate) async fn purge(context: &Arc<TableContext>, call: &Call) -> Result<()> {
    let metadata = context.metadata_cache.refresh().await?;
    let visible = metadata.visible(Window::ALL, now());
    for by in Side::BOTH {
        let (table, metadata) = (Arc::clone(context), Arc::clone(&metadata));
        let visitor = Purge { context: table, metadata: Arc::clone(&metadata), visible, by };
        let met = scan_stored(context, by, ScanCall(call.clone(), "compact"), visitor).await?;
        publish_hot_keys(context, by, met).await?;
        for key in shard_merge::keys(context, &metadata, by).await? {
            purge_hot(context, &metadata, visible, (by, &key)).await?;
        }
    }
    Ok(())
}

/// Removes hidden rows.
struct Purge {
    context: Arc<TableContext>,
    metadata: Arc<TableMetadata>,
    visible: Visible,
    by: Side,
}

impl RowVisitor for Purge {
    fn row(&self, key: &str, value: &str, seen_at: SeenAt) -> bool {
        !self.metadata.shows(&self.visible, self.by, (key, value, seen_at))
    }

    async fn batch(&self, rows: Rows) -> Result<()> {
        let remove = |row: usize| {
            let ((key, value), seen_at) = (rows.pair(row, Side::Id), rows.seen_at(row));
            delete_row(&self.context, &self.metadata, self.by, (key, value, seen_at), seen_at)
        };
        let removed = stream::iter(0..rows.len()).map(remove).buffer_unordered(CONCURRENT_DELETES);
        removed.try_collect().await
    }
}

/// Removes hidden rows of a hot key, and with keep="last" the older rows of each pair.
async fn purge_hot(
    context: &Arc<TableContext>,
    metadata: &TableMetadata,
    visible: Visible,
    (by, key): (Side, &str),
) -> Result<()> {
    let Some(shards) = metadata.hot.shards(by, key) else { return Ok(()) };
    let mut given = HashSet::new();
    let mut places = HotRows::new(context, metadata, (by, key), None, Which::Stored).await?;
    while let Some(rows) = places.next().await? {
        let removals = rows.iter().filter_map(|(value, seen_at)| {
            let is_newest = metadata.definition.keep == Keep::All
                || given.insert(XxHash3_128::oneshot(value.as_bytes()));
            let is_shown = metadata.shows(&visible, by, (key, value, *seen_at));
            (!is_newest || !is_shown).then_some((value.as_str(), *seen_at, is_shown))
        });
        let removals: Vec<_> = removals.collect();
        stream::iter(removals)
            .map(async |(value, seen_at, is_shown)| match is_shown {
                true => {
                    // A client that knows fewer shards still needs this row in its place.
                    delete_shard_row(context, (by, key, shards), (value, seen_at), seen_at).await
                }
                false => delete_row(context, metadata, by, (key, value, seen_at), seen_at).await,
            })
            .buffer_unordered(CONCURRENT_DELETES)
            .try_for_each(async |()| Ok(()))
            .await?;
    }
    Ok(())
}
