//! Changes a table's retention, and purges expired, superseded and erased rows.

use crate::context::TableContext;
use crate::read::scan::{RowVisitor, scan, scan_stored};
use crate::read::shard_merge::{self, HotRows, Which};
use crate::row_buffer::Rows;
use crate::schema::catalog::Catalog;
use crate::schema::metadata_cache::{TableMetadata, Visible};
use crate::write::batch::write;
use crate::write::delete::{delete_row, delete_shard_row};
use crate::write::hot_keys::publish_hot_keys;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{Keep, Period, SeenAt, Side, Window};
use idmatch_store::{Error, Finding, Result, now};
use std::collections::HashSet;
use std::sync::Arc;
use twox_hash::XxHash3_128;

/// Concurrent deletes of one task: they share the servers with lookups and writes.
const CONCURRENT_DELETES: usize = 16;

/// Changes the retention. Rows that the former one hid stay hidden. A longer or absent retention
/// rewrites all rows with their new TTL: it scans the whole table.
pub(crate) async fn set(context: &Arc<TableContext>, retention: Option<Period>) -> Result<()> {
    let metadata = context.metadata_cache.refresh().await?;
    let definition = &metadata.definition;
    let is_unfinished = definition.rewritten < definition.generation;
    if definition.retention == retention && !is_unfinished {
        return Ok(());
    }
    let now = now();
    let oldest = |period: Option<&Period>| period.map_or(SeenAt::EPOCH, |p| p.before(now));
    let hidden_before = oldest(definition.retention.as_ref());
    let is_longer = oldest(retention.as_ref()) < hidden_before;
    let gone_before = definition.gone_before.max(hidden_before);
    let catalog = Catalog::new(&context.client);
    let generation = definition.generation;
    catalog.set_retention(context.name(), retention.as_ref(), gone_before, generation).await?;
    let rewritten = rewrite(context, is_longer || is_unfinished).await;
    rewritten.map_err(|e| {
        let text = format!(
            "the retention of table {} is changed, but not all rows have a new time to live; set \
             it again before they end by the former one",
            context.name()
        );
        Error::with_source(e.kind(), text, e)
    })?;
    catalog.set_rewritten(context.name(), generation + 1).await
}

/// Whether rows have a TTL that is too short, because an extension of the retention did not finish.
pub(crate) fn unfinished(context: &TableContext) -> Option<Finding> {
    let definition = &context.metadata_cache.metadata().definition;
    (definition.rewritten < definition.generation).then(|| Finding {
        place: context.what(),
        problem: "not all rows have the time to live of the latest retention: if it is not being \
                  changed now, set it again"
            .to_owned(),
    })
}

/// Rewrites rows where an extension did not finish.
pub(crate) async fn finish(context: &Arc<TableContext>) -> Result<()> {
    match unfinished(context) {
        Some(_) => {
            set(context, context.metadata_cache.metadata().definition.retention.clone()).await
        }
        None => Ok(()),
    }
}

/// Waits until every client knows the latest retention; then rewrites all rows, if that is needed.
async fn rewrite(context: &Arc<TableContext>, is_needed: bool) -> Result<()> {
    let metadata = context.metadata_cache.refresh().await?;
    tokio::time::sleep(context.metadata_cache.metadata_ttl()).await;
    if !is_needed {
        return Ok(());
    }
    // Rows in flight had the former TTL; by now they are stored, or unknown.
    tokio::time::sleep(context.client.settings().longest_write()).await;
    let visible = metadata.visible(Window::ALL);
    scan(context, Side::Id, Rewrite { context: Arc::clone(context), metadata, visible }).await
}

/// Rewrites the visible rows.
struct Rewrite {
    context: Arc<TableContext>,
    metadata: Arc<TableMetadata>,
    visible: Visible,
}

impl RowVisitor for Rewrite {
    fn row(&self, key: &str, value: &str, seen_at: SeenAt) -> bool {
        self.metadata.shows(&self.visible, Side::Id, (key, value, seen_at))
    }

    async fn batch(&self, rows: Rows) -> Result<()> {
        write(&self.context, rows).await
    }
}

/// Purges hidden rows: erased, or older than the retention. Records the hot keys that it meets.
/// Cost: a scan of both directions.
pub(crate) async fn purge_expired(context: &Arc<TableContext>) -> Result<()> {
    let metadata = context.metadata_cache.refresh().await?;
    let visible = metadata.visible(Window::ALL);
    for by in Side::BOTH {
        let (table, metadata) = (Arc::clone(context), Arc::clone(&metadata));
        let purge_expired = Purge { context: table, metadata: Arc::clone(&metadata), visible, by };
        let met = scan_stored(context, by, purge_expired).await?;
        publish_hot_keys(context, by, met).await?;
        for key in shard_merge::keys(context, &metadata, by).await? {
            sweep_hot(context, &metadata, visible, (by, &key)).await?;
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
async fn sweep_hot(
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
