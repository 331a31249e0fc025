//! Detects hot keys, and publishes them in the table's log.

use crate::context::{Detected, TableContext};
use crate::read::row::count;
use crate::schema::hot_keys::{MANY_SHARDS, shards_for};
use crate::schema::log::LogRecord;
use crate::schema::metadata_cache::TableMetadata;
use idmatch_model::Side;
use idmatch_store::Result;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::mpsc::Receiver;
use tracing::{debug, info, warn};

/// The key of one written row in this many is counted. By the time a key has ten times as many rows, it has
/// been counted with near certainty. A count costs as much as a lookup.
const SAMPLE_ONE_OF: usize = 4_000;

/// Publishes keys with this many rows that need more shards. Returns when every client knows them. Cost: a
/// metadata TTL, if there are such keys.
pub(crate) async fn publish_hot_keys(
    context: &TableContext,
    by: Side,
    keys: impl IntoIterator<Item = (String, u64)>,
) -> Result<()> {
    // One at a time, so that a key that several requests meet is published once.
    let _publishing = context.publishing.lock().await;
    let metadata = context.metadata_cache.refresh().await?;
    let hot_rows = context.client.settings().hot_key_rows;
    let mut most_rows = 0_u64;
    let needed = keys.into_iter().filter_map(|(key, rows)| {
        let shards = shards_for(rows, hot_rows)?;
        let is_new = metadata.hot.shards(by, &key).is_none_or(|now| now < shards);
        is_new.then(|| {
            most_rows = most_rows.max(rows);
            (metadata.hot.hash(by, &key), LogRecord::Hot(shards))
        })
    });
    let records: Vec<(u128, LogRecord)> = needed.collect();
    if records.is_empty() {
        return Ok(());
    }
    context.publish(&metadata, &records).await?;
    let (table, keys) = (context.name(), records.len());
    info!(%table, by = by.column(), keys, most_rows, "hot keys found");
    Ok(())
}

/// Publishes keys as [`publish_hot_keys`] does. A failure is only logged: the next request that meets
/// a key reports it again.
pub(crate) async fn try_publish_hot_keys(
    context: &TableContext,
    by: Side,
    keys: impl IntoIterator<Item = (String, u64)>,
) {
    if let Err(error) = publish_hot_keys(context, by, keys).await {
        warn!(table = %context.name(), by = by.column(), %error, "hot keys are not recorded");
    }
}

/// Publishes the hot keys that reads report, until their table is dropped.
pub(crate) async fn publish_detected(
    context: Weak<TableContext>,
    mut detected: Receiver<Detected>,
) {
    while let Some((by, key, rows)) = detected.recv().await {
        let Some(context) = context.upgrade() else { return };
        try_publish_hot_keys(&context, by, [(key, rows)]).await;
    }
}

/// The hot keys among some rows, with their row counts.
pub(crate) fn hot_candidates<'k>(
    keys: impl Iterator<Item = &'k str>,
    hot_rows: u64,
) -> HashMap<String, u64> {
    let mut rows: HashMap<&str, u64> = HashMap::new();
    keys.for_each(|key| *rows.entry(key).or_default() += 1);
    rows.retain(|_, rows| *rows > hot_rows);
    rows.into_iter().map(|(key, rows)| (key.to_owned(), rows)).collect()
}

/// Counts the rows of sampled keys beside the caller's work, and publishes the keys that are hot.
pub(crate) fn count_sample<'k>(
    context: &Arc<TableContext>,
    metadata: &TableMetadata,
    by: Side,
    keys: impl ExactSizeIterator<Item = &'k str>,
) {
    let hot_rows = context.client.settings().hot_key_rows;
    let one_of = SAMPLE_ONE_OF.min(usize::try_from(hot_rows).unwrap_or(usize::MAX)).max(1);
    let (mut keys, at) = (keys, fastrand::usize(..one_of));
    let Some(key) = keys.nth(at) else { return };
    match metadata.hot.shards(by, key) {
        Some(MANY_SHARDS) => return,
        // A key with shards is counted less often: a count reads one of its shards, and more shards are not
        // urgent.
        Some(shards) if fastrand::i32(..shards.max(1)) != 0 => return,
        _ => {}
    }
    let (context, key) = (Arc::clone(context), key.to_owned());
    let client = Arc::clone(&context.client);
    client.start(async move {
        match count(&context, by, &key).await {
            Ok(rows) => try_publish_hot_keys(&context, by, [(key, rows)]).await,
            Err(error) => debug!(table = %context.name(), %error, "rows of a key are not counted"),
        }
    });
}
