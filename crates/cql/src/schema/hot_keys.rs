//! Keys with very many rows, which would make their bucket too large for the servers.
//!
//! Such a key is noted in the table's log. From then on its rows are written to partitions of its own,
//! a fixed number of parts, newest first in each. Rows that were there before stay in the bucket: what a
//! key has is always read from all places where it may be, and merged.
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

use super::bucket::bucket;
use idmatch_model::{ErasureKey, Side};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The numbers of parts there are: a key begins with few. Many hold more rows, and cost more requests
/// to find the newest.
const FEW_PARTS: i32 = 32;
pub(crate) const MANY_PARTS: i32 = 1_024;
const STEPS: [i32; 2] = [FEW_PARTS, MANY_PARTS];
/// Rows of a part at which a key goes on to the next number: well below the 100,000 of which
/// servers warn.
pub(crate) const ROWS_PER_PART: u64 = 50_000;
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
    pub(crate) fn parts_to_write(
        &self,
        by: Side,
        key: &str,
        metadata_ttl: Duration,
    ) -> Option<i32> {
        let is_everywhere =
            |parts: &&Parts| parts.since.is_none_or(|since| since.elapsed() >= metadata_ttl);
        self.of(by, key).iter().filter(is_everywhere).map(|parts| parts.number).max()
    }
}

/// The part that a value is in.
pub(crate) fn part(value: &str, parts: i32) -> i32 {
    bucket(value, parts)
}

/// How many parts a key of so many rows has to have.
pub(crate) fn parts_for(rows: u64, hot_rows: u64) -> Option<i32> {
    let step = |parts: &i32| rows <= u64::from(parts.unsigned_abs()) * ROWS_PER_PART;
    (rows > hot_rows).then(|| STEPS.into_iter().find(step).unwrap_or(MANY_PARTS))
}

/// The numbers of parts that a key may have rows in.
pub(crate) fn steps(parts: i32) -> impl Iterator<Item = i32> {
    STEPS.into_iter().filter(move |step| *step <= parts)
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
