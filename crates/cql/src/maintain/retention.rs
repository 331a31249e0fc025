//! Changes a table's retention, and rewrites rows with their new time to live.

use crate::context::TableContext;
use crate::logged::millis;
use crate::read::scan::{RowVisitor, ScanCall, scan};
use crate::row_buffer::RowBuffer;
use crate::schema::catalog::KeyspaceCatalog;
use crate::schema::metadata_cache::{TableMetadata, VisibleRange};
use crate::write::batch::write;
use idmatch_model::{Period, SeenAt, Side};
use idmatch_store::{Call, Error, Finding, Result, now};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::time::Instant;
use tracing::info;

/// Changes the retention, which filters all reads from then on. A retention that shows dates whose rows may
/// be gone already also rewrites all rows that it shows, with their new TTL: it scans the whole table. Rows
/// that a shorter retention hides stay for a day.
pub(crate) async fn set(
    context: &Arc<TableContext>,
    retention: Option<Period>,
    call: &Call,
) -> Result<()> {
    let metadata = context.metadata_cache.refresh().await?;
    let definition = &metadata.definition;
    let is_unfinished = definition.is_unfinished();
    if definition.retention == retention && !is_unfinished {
        return Ok(());
    }
    let (new, is_longer) = definition.altered(retention, now());
    let catalog = KeyspaceCatalog::new(&context.client);
    catalog.set_retention(context.id(), &new).await?;
    // Every client filters by the new retention when this returns.
    context.wait_until_known().await?;
    if !is_longer && !is_unfinished {
        return catalog.set_rewritten(context.id(), new.generation).await;
    }
    rewrite(context, new.hidden_before, call).await.map_err(|e| {
        let text = format!(
            "the retention of table {} is changed, but not all rows have a new time to live, and \
                 older ones stay hidden; set it again before rows end by the former one",
            context.name()
        );
        Error::because(text, e)
    })?;
    catalog.set_rewritten(context.id(), new.generation).await?;
    context.wait_until_known().await
}

/// Whether rows have a TTL that is too short, because an extension of the retention did not finish.
pub(crate) fn unfinished(context: &TableContext) -> Option<Finding> {
    let definition = &context.metadata_cache.held().definition;
    definition.is_unfinished().then(|| Finding {
        place: context.what(),
        problem: "not all rows have the time to live of the latest retention, and older ones are \
                  hidden: if it is not being changed now, set it again"
            .to_owned(),
    })
}

/// Rewrites rows where an extension did not finish.
pub(crate) async fn finish(context: &Arc<TableContext>, call: &Call) -> Result<()> {
    match unfinished(context) {
        Some(_) => {
            let retention = context.metadata_cache.held().definition.retention.clone();
            set(context, retention, call).await
        }
        None => Ok(()),
    }
}

/// Rewrites all rows that the retention shows, once no write with the former TTL is under way. A row before
/// `hidden_before` may be left in one direction only, so such rows are written from both directions.
async fn rewrite(
    context: &Arc<TableContext>,
    hidden_before: Option<SeenAt>,
    call: &Call,
) -> Result<()> {
    let (table, began, rewritten) = (context.name(), Instant::now(), Arc::new(AtomicU64::new(0)));
    info!(%table, "rows are rewritten for a retention");
    tokio::time::sleep(context.client.settings().longest_write()).await;
    let metadata = context.metadata_cache.refresh().await?;
    let visible = metadata.retained(now());
    for (by, before) in [(Side::Id, None), (Side::PartnerId, hidden_before)] {
        if by == Side::PartnerId && before.is_none() {
            continue;
        }
        let visitor = Rewrite {
            context: Arc::clone(context),
            metadata: Arc::clone(&metadata),
            visible,
            by,
            before,
            rewritten: Arc::clone(&rewritten),
        };
        scan(context, by, ScanCall(call.clone(), "rewrite"), visitor).await?;
    }
    let rows = rewritten.load(Relaxed);
    info!(%table, rows, ms = millis(began), "rows were rewritten for a retention");
    Ok(())
}

/// Rewrites visible rows, or only the visible rows before a date.
struct Rewrite {
    context: Arc<TableContext>,
    metadata: Arc<TableMetadata>,
    visible: VisibleRange,
    by: Side,
    before: Option<SeenAt>,
    rewritten: Arc<AtomicU64>,
}

impl RowVisitor for Rewrite {
    fn row(&self, key: &str, value: &str, seen_at: SeenAt) -> bool {
        self.before.is_none_or(|before| seen_at < before)
            && self.metadata.shows(&self.visible, self.by, (key, value, seen_at))
    }

    async fn batch(&self, rows: RowBuffer) -> Result<()> {
        self.rewritten.fetch_add(rows.len() as u64, Relaxed);
        if self.by == Side::Id {
            return write(&self.context, rows).await;
        }
        let mut turned = RowBuffer::default();
        for row in 0..rows.len() {
            // A scan stores the key of its direction as the id.
            let (id, partner_id) = rows.pair(row, Side::PartnerId);
            turned.push(id, partner_id, rows.seen_at(row));
        }
        write(&self.context, turned).await
    }
}
