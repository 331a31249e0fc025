//! Changes a table's retention, and removes what is hidden for good.

use crate::context::TableContext;
use crate::read::hot_key::{self, HotRows, Which};
use crate::read::row_buffer::Rows;
use crate::read::scan::{RowVisitor, scan, scan_stored};
use crate::schema::catalog::Catalog;
use crate::schema::metadata_cache::{TableMetadata, Visible};
use crate::write::batch::write;
use crate::write::delete::{delete_part_row, delete_row};
use crate::write::hot_keys::note;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{Keep, Period, SeenAt, Side, Window};
use idmatch_store::{Error, Finding, Result, now};
use std::collections::HashSet;
use std::sync::Arc;
use twox_hash::XxHash3_128;

/// Concurrent deletes of one task: lookups and writes share the servers with it.
const CONCURRENT_DELETES: usize = 16;

/// Chooses another retention. What the former one hid stays hidden. Where rows are to live longer, or for
/// ever, they are written anew with their new time to live: the whole table is read.
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

/// Where rows live too short for the latest retention, because to lengthen it did not end, or does not yet.
pub(crate) fn unfinished(context: &TableContext) -> Option<Finding> {
    let definition = &context.metadata_cache.metadata().definition;
    (definition.rewritten < definition.generation).then(|| Finding {
        place: context.what(),
        problem: "not all rows have the time to live of the latest retention: if it is not being \
                  changed now, set it again"
            .to_owned(),
    })
}

/// Writes rows anew where that did not end.
pub(crate) async fn finish(context: &Arc<TableContext>) -> Result<()> {
    match unfinished(context) {
        Some(_) => {
            set(context, context.metadata_cache.metadata().definition.retention.clone()).await
        }
        None => Ok(()),
    }
}

/// Waits until everyone has the latest retention; writes all rows anew by it, if that is needed.
async fn rewrite(context: &Arc<TableContext>, is_needed: bool) -> Result<()> {
    let metadata = context.metadata_cache.refresh().await?;
    tokio::time::sleep(context.metadata_cache.metadata_ttl()).await;
    if !is_needed {
        return Ok(());
    }
    // Rows that were under way have the former time to live; they are there by then, or unknown.
    tokio::time::sleep(context.client.settings().longest_write()).await;
    let visible = metadata.visible(Window::ALL);
    scan(context, Side::Id, Rewrite { context: Arc::clone(context), metadata, visible }).await
}

/// Writes the rows anew that are to be seen.
struct Rewrite {
    context: Arc<TableContext>,
    metadata: Arc<TableMetadata>,
    visible: Visible,
}

impl RowVisitor for Rewrite {
    fn row(&self, key: &str, value: &str, seen_at: SeenAt) -> bool {
        self.metadata.shows(&self.visible, Side::Id, (key, value, seen_at))
    }

    async fn portion(&self, rows: Rows) -> Result<()> {
        write(&self.context, rows).await
    }
}

/// Removes the rows that nobody will see again: erased, or older than the retention. Notes the keys
/// that have very many. Cost: both directions are read.
pub(crate) async fn purge_expired(context: &Arc<TableContext>) -> Result<()> {
    let metadata = context.metadata_cache.refresh().await?;
    let visible = metadata.visible(Window::ALL);
    for by in Side::BOTH {
        let (table, metadata) = (Arc::clone(context), Arc::clone(&metadata));
        let purge_expired = Purge { context: table, metadata: Arc::clone(&metadata), visible, by };
        let met = scan_stored(context, by, purge_expired).await?;
        note(context, by, met).await?;
        for key in hot_key::keys(context, &metadata, by).await? {
            sweep_hot(context, &metadata, visible, (by, &key)).await?;
        }
    }
    Ok(())
}

/// Removes the rows that are not to be seen.
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

    async fn portion(&self, rows: Rows) -> Result<()> {
        let remove = |row: usize| {
            let ((key, value), seen_at) = (rows.pair(row, Side::Id), rows.seen_at(row));
            delete_row(&self.context, &self.metadata, self.by, (key, value, seen_at), seen_at)
        };
        let removed = stream::iter(0..rows.len()).map(remove).buffer_unordered(CONCURRENT_DELETES);
        removed.try_collect().await
    }
}

/// Removes from a key with very many rows those that are not to be seen, and with keep="last" those of
/// a pair that was seen again later.
async fn sweep_hot(
    context: &Arc<TableContext>,
    metadata: &TableMetadata,
    visible: Visible,
    (by, key): (Side, &str),
) -> Result<()> {
    let Some(parts) = metadata.hot.parts(by, key) else { return Ok(()) };
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
                    // A question that knows of fewer parts still needs it there.
                    delete_part_row(context, (by, key, parts), (value, seen_at), seen_at).await
                }
                false => delete_row(context, metadata, by, (key, value, seen_at), seen_at).await,
            })
            .buffer_unordered(CONCURRENT_DELETES)
            .try_for_each(async |()| Ok(()))
            .await?;
    }
    Ok(())
}
