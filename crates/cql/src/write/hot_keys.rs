//! Finds the keys that have very many rows, and notes them in the table's log.

use crate::context::{Detected, TableContext};
use crate::read::row::count;
use crate::schema::catalog::Note;
use crate::schema::hot_keys::{MANY_PARTS, parts_for};
use crate::schema::metadata_cache::TableMetadata;
use idmatch_model::Side;
use idmatch_store::Result;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::mpsc::Receiver;

/// One of so many rows that are written has its key looked at: of a key with ten times as many, one has been
/// by then with near certainty, and a look costs as much as a lookup.
const LOOK_AT_ONE_OF: usize = 4_000;

/// Notes keys of so many rows, where that is more than they have parts for. Returns when every client
/// knows. Cost: a lease, if there are any.
pub(crate) async fn note(
    context: &TableContext,
    by: Side,
    keys: impl IntoIterator<Item = (String, u64)>,
) -> Result<()> {
    // One at a time, so that a key that several meet is noted once.
    let _noting = context.noting.lock().await;
    let metadata = context.metadata_cache.refresh().await?;
    let hot_rows = context.client.settings().hot_key_rows;
    let needed = keys.into_iter().filter_map(|(key, rows)| {
        let parts = parts_for(rows, hot_rows)?;
        let is_new = metadata.hot.parts(by, &key).is_none_or(|now| now < parts);
        is_new.then(|| (metadata.hot.hash(by, &key), Note::Hot(parts)))
    });
    let notes: Vec<(u128, Note)> = needed.collect();
    if notes.is_empty() {
        return Ok(());
    }
    context.publish(&metadata, &notes).await
}

/// Notes the keys that reads report, until their table is dropped. A failure is nobody's: who meets the key next
/// reports it again.
pub(crate) async fn note_detected(context: Weak<TableContext>, mut detected: Receiver<Detected>) {
    while let Some((by, key, rows)) = detected.recv().await {
        let Some(context) = context.upgrade() else { return };
        note(&context, by, [(key, rows)]).await.ok();
    }
}

/// The keys of some rows that have very many of them, and how many.
pub(crate) fn hot_candidates<'k>(
    keys: impl Iterator<Item = &'k str>,
    hot_rows: u64,
) -> HashMap<String, u64> {
    let mut rows: HashMap<&str, u64> = HashMap::new();
    keys.for_each(|key| *rows.entry(key).or_default() += 1);
    rows.retain(|_, rows| *rows > hot_rows);
    rows.into_iter().map(|(key, rows)| (key.to_owned(), rows)).collect()
}

/// Looks at some of the keys that are written, by chance, and notes those with very many rows, beside
/// what the caller does.
pub(crate) fn look_at_some<'k>(
    context: &Arc<TableContext>,
    metadata: &TableMetadata,
    by: Side,
    keys: impl ExactSizeIterator<Item = &'k str>,
) {
    let hot_rows = context.client.settings().hot_key_rows;
    let one_of = LOOK_AT_ONE_OF.min(usize::try_from(hot_rows).unwrap_or(usize::MAX)).max(1);
    let (mut keys, at) = (keys, fastrand::usize(..one_of));
    let Some(key) = keys.nth(at) else { return };
    match metadata.hot.parts(by, key) {
        Some(MANY_PARTS) => return,
        // A look reads one of the parts, and there is time.
        Some(parts) if fastrand::i32(..parts.max(1)) != 0 => return,
        _ => {}
    }
    let (context, key) = (Arc::clone(context), key.to_owned());
    let client = Arc::clone(&context.client);
    client.start(async move {
        let rows = count(&context, by, &key).await?;
        note(&context, by, [(key, rows)]).await
    });
}
