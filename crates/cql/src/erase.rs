//! Erases: publishes what is hidden, waits until every client knows, then removes what is there.
//!
//! What was published hides rows from every question, whenever they arrive. Removing them is for
//! the disk: rows that are written later, by who did not know yet, are removed by a compaction.

use crate::bucket::bucket;
use crate::catalog::Catalog;
use crate::errors::unexpected;
use crate::handle::{Handle, StoredRow};
use crate::state::Known;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{SeenAt, Side, Target, Window};
use idmatch_store::{Erased, Error, Result};
use scylla::response::PagingState;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Erasures that one entry of a table's log has.
const ENTRY: usize = 10_000;
/// Targets that are worked on at once.
const AT_ONCE: usize = 32;

/// A row of one direction: key, value, date.
type Row = (String, String, SeenAt);

/// Erases some targets up to a date. Cost: a lease, then a few requests for each target and each of
/// its rows; memory: the targets, and their rows.
pub(crate) async fn erase(
    handle: &Arc<Handle>,
    targets: Vec<Target>,
    at: SeenAt,
) -> Result<Erased> {
    if targets.is_empty() {
        return Ok(Erased::default());
    }
    let before = handle.state.refresh().await?;
    let hashes: Vec<u128> = targets.iter().map(|target| before.erasures.hash(target)).collect();
    let catalog = Catalog::new(&handle.client);
    for hashes in hashes.chunks(ENTRY) {
        catalog.add_erasures(handle.name(), before.last_entry, hashes, at).await?;
    }
    handle.state.refresh().await?;
    tokio::time::sleep(handle.state.lease()).await;
    // A row that several targets hide counts once.
    let targets: BTreeSet<Target> = targets.into_iter().collect();
    let rows: Vec<[BTreeSet<Row>; 2]> = stream::iter(targets)
        .map(|target| remove(handle, &before, target, at))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let count = |side: usize| {
        let all: BTreeSet<&Row> = rows.iter().filter_map(|rows| rows.get(side)).flatten().collect();
        all.len() as u64
    };
    Ok(Erased { by_id: count(0), by_partner_id: count(1) })
}

/// Removes what there is of a target; gives the rows of each direction that were shown before.
async fn remove(
    handle: &Handle,
    before: &Known,
    target: Target,
    at: SeenAt,
) -> Result<[BTreeSet<Row>; 2]> {
    let (by, key, value) = match &target {
        Target::Id(id) => (Side::Id, id, None),
        Target::PartnerId(partner_id) => (Side::PartnerId, partner_id, None),
        Target::Pair { id, partner_id } => (Side::Id, id, Some(partner_id)),
    };
    let is_pair = value.is_some();
    let hidden = |row: &Row| row.2 <= at && value.is_none_or(|value| *value == row.1);
    let here: Vec<Row> =
        rows_of(handle, before, by, key).await?.into_iter().filter(hidden).collect();
    if value.is_none() {
        handle.delete_key(before, by, key, at).await?;
    }
    let remove_row = |row: &Row| {
        let row = row.clone();
        async move {
            // What the other direction has is read there: it may differ.
            let (key, value, seen_at) = (&row.0, &row.1, row.2);
            let found = handle.row(before, by.other(), (value, key, seen_at)).await?;
            handle.delete_row(before, by.other(), (value, key, seen_at), at).await?;
            if is_pair {
                handle.delete_row(before, by, (key, value, seen_at), at).await?;
            }
            let date = found.filter(|date| *date <= at);
            Ok::<_, Error>(date.map(|date| (value.clone(), key.clone(), date)))
        }
    };
    let there: Vec<Option<Row>> =
        stream::iter(&here).map(remove_row).buffer_unordered(AT_ONCE).try_collect().await?;
    let there = there.into_iter().flatten().collect();
    let visible = before.visible(Window::ALL);
    let shown = |by: Side, rows: Vec<Row>| -> BTreeSet<Row> {
        let shows = |row: &Row| before.shows(&visible, by, (&row.0, &row.1, row.2));
        rows.into_iter().filter(shows).collect()
    };
    let (here, there) = (shown(by, here), shown(by.other(), there));
    Ok(match by {
        Side::Id => [here, there],
        Side::PartnerId => [there, here],
    })
}

/// All rows of a key as they are stored.
async fn rows_of(handle: &Handle, known: &Known, by: Side, key: &str) -> Result<Vec<Row>> {
    let what = handle.what();
    let statement = handle.by(by).key.get(&handle.client).await?;
    let values = (bucket(key, known.definition.buckets), key);
    let (mut found, mut next) = (Vec::new(), Some(PagingState::start()));
    while let Some(state) = next.take() {
        let (rows, more) = handle.client.read_page(&what, statement, values, state).await?;
        for row in rows.rows::<StoredRow<'_>>().map_err(|e| unexpected(&what, e))? {
            let (key, value, date) = row.map_err(|e| unexpected(&what, e))?;
            found.push((key.to_owned(), value.to_owned(), handle.seen_at(date)?));
        }
        next = more;
    }
    Ok(found)
}
