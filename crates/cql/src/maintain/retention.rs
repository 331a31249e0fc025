//! Changes a table's retention, and rewrites rows with their new time to live.

use crate::context::TableContext;
use crate::read::scan::{RowVisitor, ScanCall, scan};
use crate::row_buffer::Rows;
use crate::schema::catalog::Catalog;
use crate::schema::metadata_cache::{TableMetadata, Visible};
use crate::write::batch::write;
use idmatch_model::{Period, SeenAt, Side, Window};
use idmatch_store::{Call, Error, Finding, Result, now};
use std::sync::Arc;

/// Changes the retention. Rows that the former one hid stay hidden. A longer or absent retention
/// rewrites all rows with their new TTL: it scans the whole table.
pub(crate) async fn set(
    context: &Arc<TableContext>,
    retention: Option<Period>,
    call: &Call,
) -> Result<()> {
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
    let rewritten = rewrite(context, is_longer || is_unfinished, call).await;
    rewritten.map_err(|e| {
        let text = format!(
            "the retention of table {} is changed, but not all rows have a new time to live; set \
             it again before they end by the former one",
            context.name()
        );
        Error::because(text, e)
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
pub(crate) async fn finish(context: &Arc<TableContext>, call: &Call) -> Result<()> {
    match unfinished(context) {
        Some(_) => {
            let retention = context.metadata_cache.metadata().definition.retention.clone();
            set(context, retention, call).await
        }
        None => Ok(()),
    }
}

/// Waits until every client knows the latest retention; then rewrites all rows, if that is needed.
async fn rewrite(context: &Arc<TableContext>, is_needed: bool, call: &Call) -> Result<()> {
    let metadata = context.metadata_cache.refresh().await?;
    tokio::time::sleep(context.metadata_cache.metadata_ttl()).await;
    if !is_needed {
        return Ok(());
    }
    // Rows in flight had the former TTL; by now they are stored, or unknown.
    tokio::time::sleep(context.client.settings().longest_write()).await;
    let visible = metadata.visible(Window::ALL, now());
    let visitor = Rewrite { context: Arc::clone(context), metadata, visible };
    scan(context, Side::Id, ScanCall(call.clone(), "rewrite"), visitor).await
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
