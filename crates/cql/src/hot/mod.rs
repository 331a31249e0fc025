//! Keys with very many rows, which would make their bucket too large for the servers.
//!
//! Such a key is noted in the table's log. From then on its rows are written to partitions of its own,
//! a fixed number of parts, newest first in each. Rows that were there before stay in the bucket: what a
//! key has is always read from all places where it may be, and merged ([`merge`]).
//!
//! A key is noted by who meets it: a write that has very many rows of it, or that looks at one of so
//! many rows by chance; a lookup; a compaction, which meets all.
//!
//! Invariants:
//! - no row is written to parts before every client knows that it may be there: who learns of a note
//!   waits for a lease before writing by it;
//! - a row that was seen again is removed only where the later one is too: who does not know that place
//!   yet sees the former;
//! - the value decides about the part, so that all dates of a pair are in one.

mod merge;
mod notice;

pub(crate) use merge::{HotRows, Which};
pub(crate) use notice::{crowded, look_at_some, note, note_later};

use crate::bucket::bucket;
use crate::handle::{Handle, erased_at};
use crate::state::{Dates, Known};
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{ErasureKey, SeenAt, Side};
use idmatch_store::Result;
use scylla::value::CqlTimestamp;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// The numbers of parts there are: a key begins with few. Many hold more rows, and cost more requests
/// to find the newest.
const FEW_PARTS: i32 = 32;
const MANY_PARTS: i32 = 1_024;
const STEPS: [i32; 2] = [FEW_PARTS, MANY_PARTS];
/// Rows of a part at which a key goes on to the next number: well below the 100,000 of which
/// servers warn.
const ROWS_PER_PART: u64 = 50_000;
/// Concurrent deletes of the parts of one key.
const CONCURRENT_PART_DELETES: usize = 64;

/// The keys that are noted, by their keyed hash.
#[derive(Debug, Clone)]
pub(crate) struct HotKeys {
    key: ErasureKey,
    notes: HashMap<u128, Vec<Parts>>,
}

/// A number of parts that a key has, and since when that is known here; `None` for long.
#[derive(Debug, Clone, Copy)]
struct Parts {
    number: i32,
    since: Option<Instant>,
}

impl HotKeys {
    pub(crate) fn new(key: ErasureKey) -> HotKeys {
        HotKeys { key, notes: HashMap::new() }
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Adds a number of parts of a key, which is known since then; `None` for long.
    pub(crate) fn add(&mut self, hash: u128, number: i32, since: Option<Instant>) {
        let notes = self.notes.entry(hash).or_default();
        if notes.iter().all(|parts| parts.number != number) {
            notes.push(Parts { number, since });
        }
    }

    /// What is noted of a key.
    pub(crate) fn hash(&self, by: Side, key: &str) -> u128 {
        match by {
            Side::Id => self.key.id(key.as_bytes()),
            Side::PartnerId => self.key.partner_id(key.as_bytes()),
        }
    }

    fn of(&self, by: Side, key: &str) -> &[Parts] {
        if self.notes.is_empty() {
            return &[];
        }
        self.notes.get(&self.hash(by, key)).map_or(&[], Vec::as_slice)
    }

    /// In how many parts a key may have rows; `None` if it is a key like others.
    pub(crate) fn parts(&self, by: Side, key: &str) -> Option<i32> {
        self.of(by, key).iter().map(|parts| parts.number).max()
    }

    /// In how many parts new rows of a key are written: those of which every client knows. `None` for
    /// its bucket.
    pub(crate) fn parts_to_write(&self, by: Side, key: &str, lease: Duration) -> Option<i32> {
        let is_everywhere =
            |parts: &&Parts| parts.since.is_none_or(|since| since.elapsed() >= lease);
        self.of(by, key).iter().filter(is_everywhere).map(|parts| parts.number).max()
    }
}

/// The part that a value is in.
pub(crate) fn part(value: &str, parts: i32) -> i32 {
    bucket(value, parts)
}

/// What the rows of a part that were seen between some dates are asked for with.
pub(crate) fn part_values(
    handle: &Handle,
    (by, key, parts, part): (Side, &str, i32, i32),
    Dates(since, until): Dates,
) -> PartValues {
    (handle.name().to_string(), by.column(), key.to_owned(), parts, part, since, until)
}

/// Table, side, key, parts, part; from when on and before when.
type PartValues = (String, &'static str, String, i32, i32, CqlTimestamp, CqlTimestamp);

/// How many parts a key of so many rows has to have.
fn parts_for(rows: u64, hot_rows: u64) -> Option<i32> {
    let step = |parts: &i32| rows <= u64::from(parts.unsigned_abs()) * ROWS_PER_PART;
    (rows > hot_rows).then(|| STEPS.into_iter().find(step).unwrap_or(MANY_PARTS))
}

/// The numbers of parts that a key may have rows in.
pub(crate) fn steps(parts: i32) -> impl Iterator<Item = i32> {
    STEPS.into_iter().filter(move |step| *step <= parts)
}

/// Removes what a key has in its parts that was seen by then.
pub(crate) async fn delete_key(
    handle: &Handle,
    (by, key, parts): (Side, &str, i32),
    at: SeenAt,
) -> Result<()> {
    let delete = &handle.hot().delete_part;
    let what = handle.what();
    let all = steps(parts).flat_map(|parts| (0..parts).map(move |part| (parts, part)));
    stream::iter(all)
        .map(|(parts, part)| {
            let (name, side) = (handle.name().as_str(), by.column());
            let values = (erased_at(at), name, side, key, parts, part);
            handle.client.write(&what, delete, values)
        })
        .buffer_unordered(CONCURRENT_PART_DELETES)
        .try_for_each(async |_| Ok(()))
        .await
}

/// Removes one row of a key from its parts, if that was seen by then.
pub(crate) async fn delete_row(
    handle: &Handle,
    (by, key, parts): (Side, &str, i32),
    (value, seen_at): (&str, SeenAt),
    at: SeenAt,
) -> Result<()> {
    for parts in steps(parts) {
        delete_from(handle, (by, key, parts), (value, seen_at), at).await?;
    }
    Ok(())
}

/// Removes one row of a key from this number of parts, if that was seen by then.
pub(crate) async fn delete_from(
    handle: &Handle,
    (by, key, parts): (Side, &str, i32),
    (value, seen_at): (&str, SeenAt),
    at: SeenAt,
) -> Result<()> {
    let delete = &handle.hot().delete_row;
    let (name, side, part) = (handle.name().as_str(), by.column(), part(value, parts));
    let date = CqlTimestamp(seen_at.millis_i64());
    let values = (erased_at(at), name, side, key, parts, part, value, date);
    handle.client.write(&handle.what(), delete, values).await.map(drop)
}

/// How many rows a key has, about: one part is looked at, and not much further than where it is too
/// large.
pub(crate) async fn count(handle: &Handle, (by, key, parts): (Side, &str, i32)) -> Result<u64> {
    let statement = &handle.hot().part;
    let pages = handle.pages(statement, part_values(handle, (by, key, parts, 0), Dates::ALL));
    Ok(pages.count(ROWS_PER_PART).await? * u64::from(parts.unsigned_abs()))
}

/// The keys of a direction that have rows in parts, and are known to.
pub(crate) async fn keys(handle: &Handle, known: &Known, by: Side) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    if known.hot.is_empty() {
        return Ok(found);
    }
    let keys = &handle.hot().keys;
    let mut pages = handle.pages(keys, ());
    while let Some(page) = pages.next().await? {
        page.each(|(name, side, key, _, _): (&str, &str, &str, i32, i32)| {
            let is_here = name == handle.name().as_str() && side == by.column();
            if is_here && known.hot.parts(by, key).is_some() && !found.contains(key) {
                found.insert(key.to_owned());
            }
            Ok(())
        })?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_as_many_parts_as_its_rows_need() {
        let parts = [10, 11, 1_600_000, 1_600_001, u64::MAX].map(|rows| parts_for(rows, 10));
        assert_eq!(parts, [None, Some(32), Some(32), Some(1_024), Some(1_024)]);
        assert_eq!(steps(32).collect::<Vec<_>>(), [32]);
        assert_eq!(steps(1_024).collect::<Vec<_>>(), [32, 1_024]);
    }
}
