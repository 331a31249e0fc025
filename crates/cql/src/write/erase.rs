//! Erases: publishes what is hidden, waits until every client knows, then removes what is there.
//!
//! What was published hides rows from every question, whenever they arrive. Removing them is for
//! the disk: rows that are written later, by who did not know yet, are removed by a compaction.

use super::delete::{delete_key, delete_row};
use crate::context::TableContext;
use crate::read::hot_key::{HotRows, Which};
use crate::read::row::row as read_row;
use crate::schema::catalog::Note;
use crate::schema::metadata_cache::TableMetadata;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{Keep, SeenAt, Side, Target, Window};
use idmatch_store::{Erased, Erasures, Error, Result};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Targets, and rows of each, that are erased concurrently.
const CONCURRENT_TARGETS: usize = 32;

/// A row of one direction: key, value, date.
type Row = (String, String, SeenAt);

/// Imports the tombstones of another table; returns when every client knows. Hidden rows that are stored stay
/// on disk until a compaction. Cost: a lease, and a few requests for each ten thousand that are new.
pub(crate) async fn import(context: &Arc<TableContext>, theirs: &Erasures) -> Result<()> {
    let before = context.metadata_cache.refresh().await?;
    theirs.check_key(Some(before.erasures.key()), context.name())?;
    let is_new = |(hash, at): &(u128, _)| !before.erasures.covers(*hash, *at);
    let new: Vec<_> = theirs.hashes.iter().copied().filter(is_new).collect();
    if new.is_empty() {
        return Ok(());
    }
    let notes: Vec<_> = new.into_iter().map(|(hash, at)| (hash, Note::Erased(at))).collect();
    context.publish(&before, &notes).await
}

/// Erases some targets up to a date. Cost: a lease, then a few requests for each target and each of
/// its rows; memory: the targets, and of 32 of them all rows, some hundred bytes each.
pub(crate) async fn erase(
    context: &Arc<TableContext>,
    targets: Vec<Target>,
    at: SeenAt,
) -> Result<Erased> {
    if targets.is_empty() {
        return Ok(Erased::default());
    }
    let before = context.metadata_cache.refresh().await?;
    let note = |target| (before.erasures.hash(target), Note::Erased(at));
    let notes: Vec<(u128, Note)> = targets.iter().map(note).collect();
    context.publish(&before, &notes).await?;
    // A row that several targets hide counts once.
    let targets: BTreeSet<Target> = targets.into_iter().collect();
    let rows: Vec<[BTreeSet<Row>; 2]> = stream::iter(targets)
        .map(|target| remove(context, &before, target, at))
        .buffer_unordered(CONCURRENT_TARGETS)
        .try_collect()
        .await
        .map_err(|e| {
            let text = format!(
                "what was to be erased in table {} is hidden for good, but not all of it is \
                 removed; repeat it, or compact the table",
                context.name()
            );
            Error::with_source(e.kind(), text, e)
        })?;
    let count = |side: usize| {
        let all: BTreeSet<&Row> = rows.iter().filter_map(|rows| rows.get(side)).flatten().collect();
        all.len() as u64
    };
    Ok(Erased { by_id: count(0), by_partner_id: count(1) })
}

/// Removes what there is of a target; gives the rows of each direction that were shown before.
async fn remove(
    context: &Arc<TableContext>,
    before: &TableMetadata,
    target: Target,
    at: SeenAt,
) -> Result<[BTreeSet<Row>; 2]> {
    let (by, key, value) = match &target {
        Target::Id(id) => (Side::Id, id, None),
        Target::PartnerId(partner_id) => (Side::PartnerId, partner_id, None),
        Target::Pair { id, partner_id } => (Side::Id, id, Some(partner_id)),
    };
    let is_pair = value.is_some();
    let mut stored = rows_of(context, before, (by, key), value.map(String::as_str)).await?;
    let is_hidden = |row: &Row| row.2 <= at;
    // A pair that was seen later is not erased, even if an older row of it is still there.
    let (keep, mut given) = (before.definition.keep, HashSet::new());
    let newest = stored.iter().filter(|row| keep == Keep::All || given.insert(&row.1));
    let here: Vec<Row> = newest.filter(|row| is_hidden(row)).cloned().collect();
    stored.retain(is_hidden);
    if value.is_none() {
        delete_key(context, before, by, key, at).await?;
    }
    let remove_row = |row: &Row| {
        let row = row.clone();
        async move {
            // What the other direction has is read there: it may differ.
            let (key, value, seen_at) = (&row.0, &row.1, row.2);
            let found = read_row(context, before, by.other(), (value, key, seen_at)).await?;
            delete_row(context, before, by.other(), (value, key, seen_at), at).await?;
            if before.hot.parts(by.other(), value).is_some() {
                // Older rows of the pair too, which this direction need not have.
                let older = rows_of(context, before, (by.other(), value), Some(key)).await?;
                for row in older.iter().filter(|row| row.2 <= at) {
                    delete_row(context, before, by.other(), (&row.0, &row.1, row.2), at).await?;
                }
            }
            if is_pair {
                delete_row(context, before, by, (key, value, seen_at), at).await?;
            }
            let date = found.filter(|date| *date <= at);
            Ok::<_, Error>(date.map(|date| (value.clone(), key.clone(), date)))
        }
    };
    let there: Vec<Option<Row>> = stream::iter(&stored)
        .map(remove_row)
        .buffer_unordered(CONCURRENT_TARGETS)
        .try_collect()
        .await?;
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

/// All rows of a key as they are stored, newest first; of one value, if that is named.
async fn rows_of(
    context: &Arc<TableContext>,
    metadata: &TableMetadata,
    (by, key): (Side, &str),
    value: Option<&str>,
) -> Result<Vec<Row>> {
    let mut rows = HotRows::new(context, metadata, (by, key), value, Which::Stored).await?;
    let mut found = Vec::new();
    while let Some(mut some) = rows.next().await? {
        some.retain(|row| value.is_none_or(|value| value == row.0));
        found.extend(some.into_iter().map(|(value, date)| (key.to_owned(), value, date)));
    }
    Ok(found)
}
