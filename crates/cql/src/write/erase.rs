//! Erases: publishes tombstones, waits until every client knows them, then deletes stored rows.
//!
//! One metadata TTL after its publication, a tombstone hides its rows from every request that
//! begins after that. It also hides rows that arrive later. Deleting rows only frees disk: a purge removes
//! rows that another client wrote before it knew the tombstone.

use super::delete::{delete_key, delete_row};
use super::timestamp::erased_at;
use crate::context::TableContext;
use crate::read::row::row as read_row;
use crate::read::shard_merge::{HotKeyReader, RowSelection};
use crate::schema::log::{Log, LogRecord};
use crate::schema::metadata_cache::TableMetadata;
use crate::schema::names::Names;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{Keep, SeenAt, Side, TableName, Target, Window};
use idmatch_store::{Erased, Erasures, Error, Result, now};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Targets, and rows of each, that are erased concurrently.
const CONCURRENT_TARGETS: usize = 32;

/// A row of one direction: key, value, date.
type OwnedRow = (String, String, SeenAt);

/// Imports the tombstones of another table; returns when every client knows them. Hidden rows stay
/// on disk until a compaction. Cost: a metadata TTL, and a few requests for each 10,000 new
/// tombstones.
pub(crate) async fn import(context: &Arc<TableContext>, theirs: &Erasures) -> Result<()> {
    let before = context.metadata_cache.refresh().await?;
    theirs.check_key(Some(before.erasures.key()), &context.name())?;
    let is_new = |(hash, at): &(u128, _)| !before.erasures.covers(*hash, *at);
    let new: Vec<_> = theirs.hashes.iter().copied().filter(is_new).collect();
    if new.is_empty() {
        return Ok(());
    }
    let records: Vec<_> = new.into_iter().map(|(hash, at)| (hash, LogRecord::Erased(at))).collect();
    publish(context, None, &before, &records).await
}

/// Publishes tombstones in the log of a table. Where the table was renamed meanwhile, or a change of names is
/// announced, publishes them in all logs that the erasure concerns. Returns when every client knows them.
async fn publish(
    context: &TableContext,
    name: Option<&TableName>,
    before: &TableMetadata,
    records: &[(u128, LogRecord)],
) -> Result<()> {
    let (client, mut entered) = (&context.client, BTreeSet::new());
    let mut wanted = BTreeSet::from([context.id()]);
    while !wanted.is_subset(&entered) {
        for log in wanted.difference(&entered) {
            let last = if *log == context.id() { before.last_entry } else { 0 };
            Log::new(client).publish(*log, last, records).await?;
        }
        entered.extend(wanted);
        // The names are read after the tombstones are published: a change that is announced later merges them
        // itself.
        wanted = Names::read(client).await?.logs_beside(name, &entered);
    }
    context.wait_until_known().await
}

/// Erases targets up to a date, in the table that has this name. Cost: a metadata TTL, then a few requests
/// for each target and each of its rows. Memory: the targets, and all rows of 32 targets, some hundred bytes
/// each.
pub(crate) async fn erase(
    context: &Arc<TableContext>,
    name: &TableName,
    targets: &[Target],
    at: SeenAt,
) -> Result<Erased> {
    if targets.is_empty() {
        return Ok(Erased::default());
    }
    let before = context.metadata_cache.refresh().await?;
    let record = |target| (before.erasures.hash(target), LogRecord::Erased(at));
    let records: Vec<(u128, LogRecord)> = targets.iter().map(record).collect();
    publish(context, Some(name), &before, &records).await?;
    // A row that several targets hide counts once.
    let targets: BTreeSet<&Target> = targets.iter().collect();
    let rows: Vec<[BTreeSet<OwnedRow>; 2]> = stream::iter(targets)
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
            Error::because(text, e)
        })?;
    let count = |side: usize| {
        let all: BTreeSet<&OwnedRow> =
            rows.iter().filter_map(|rows| rows.get(side)).flatten().collect();
        all.len() as u64
    };
    Ok(Erased { by_id: count(0), by_partner_id: count(1), checkpoints: Vec::new() })
}

/// Deletes the rows of a target; returns the rows of each direction that were visible before.
async fn remove(
    context: &Arc<TableContext>,
    before: &TableMetadata,
    target: &Target,
    at: SeenAt,
) -> Result<[BTreeSet<OwnedRow>; 2]> {
    let (by, key, value) = match target {
        Target::Id(id) => (Side::Id, id, None),
        Target::PartnerId(partner_id) => (Side::PartnerId, partner_id, None),
        Target::Pair { id, partner_id } => (Side::Id, id, Some(partner_id)),
    };
    let is_pair = value.is_some();
    let mut stored = rows_of(context, before, (by, key), value.map(String::as_str)).await?;
    let is_hidden = |row: &OwnedRow| row.2 <= at;
    // A pair that was seen later is not erased, even if an older row of it is still stored.
    let (keep, mut given) = (before.definition.keep, HashSet::new());
    let newest = stored.iter().filter(|row| keep == Keep::All || given.insert(&row.1));
    let here: Vec<OwnedRow> = newest.filter(|row| is_hidden(row)).cloned().collect();
    stored.retain(is_hidden);
    if value.is_none() {
        delete_key(context, before, by, key, erased_at(at)).await?;
    }
    let remove_row = |row: &OwnedRow| {
        let row = row.clone();
        async move {
            // The other direction is read as well: its rows may differ.
            let (key, value, seen_at) = (&row.0, &row.1, row.2);
            let found = read_row(context, before, by.other(), (value, key, seen_at)).await?;
            delete_row(context, before, by.other(), (value, key, seen_at), erased_at(at)).await?;
            if before.hot.shards(by.other(), value).is_some() {
                // The shards may also have older rows of the pair, which this direction need not have.
                let older = rows_of(context, before, (by.other(), value), Some(key)).await?;
                for row in older.iter().filter(|row| row.2 <= at) {
                    let (row, at) = ((row.0.as_str(), row.1.as_str(), row.2), erased_at(at));
                    delete_row(context, before, by.other(), row, at).await?;
                }
            }
            if is_pair {
                delete_row(context, before, by, (key, value, seen_at), erased_at(at)).await?;
            }
            let date = found.filter(|date| *date <= at);
            Ok::<_, Error>(date.map(|date| (value.clone(), key.clone(), date)))
        }
    };
    let there: Vec<Option<OwnedRow>> = stream::iter(&stored)
        .map(remove_row)
        .buffer_unordered(CONCURRENT_TARGETS)
        .try_collect()
        .await?;
    let there = there.into_iter().flatten().collect();
    let visible = before.visible_range(Window::ALL, now());
    let shown = |by: Side, rows: Vec<OwnedRow>| -> BTreeSet<OwnedRow> {
        let shows = |row: &OwnedRow| before.shows(&visible, by, (&row.0, &row.1, row.2));
        rows.into_iter().filter(shows).collect()
    };
    let (here, there) = (shown(by, here), shown(by.other(), there));
    Ok(match by {
        Side::Id => [here, there],
        Side::PartnerId => [there, here],
    })
}

/// All stored rows of a key, or of one of its values, newest first.
async fn rows_of(
    context: &Arc<TableContext>,
    metadata: &TableMetadata,
    (by, key): (Side, &str),
    value: Option<&str>,
) -> Result<Vec<OwnedRow>> {
    let mut rows =
        HotKeyReader::new(context, metadata, (by, key), value, RowSelection::Stored).await?;
    let mut found = Vec::new();
    while let Some(mut some) = rows.next().await? {
        some.retain(|row| value.is_none_or(|value| value == row.0));
        found.extend(some.into_iter().map(|(value, date)| (key.to_owned(), value, date)));
    }
    Ok(found)
}
