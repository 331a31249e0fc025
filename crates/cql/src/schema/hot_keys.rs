//! Which keys are hot, and how many shards each has; `bucket::Buckets` puts a value into its shard. The rows
//! of a hot key would make its bucket too large for the servers.
//!
//! The table's log records each hot key. One metadata TTL later its new rows go to shards: partitions of its
//! own, each ordered newest first. Older rows stay in the bucket, so a read merges the bucket and all
//! shards.
//!
//! Large writes, samples of writes, lookups, matches and purges detect hot keys. `write::hot_keys` publishes
//! them, and `write::batch` sends rows to shards.
//!
//! Invariants:
//! - No row goes to a shard before every client reads that shard. A client waits for one metadata
//!   TTL after it learns of a log record, and writes by it only then.
//! - An older row of a pair is removed only from the partition of the newer row: a client that does
//!   not know the shards yet reads the older row in the bucket.
//! - The value determines the shard, so all dates of a pair are in one shard.

use idmatch_model::{ErasureKey, Side};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// The numbers of shards: a key starts with few. More shards hold more rows, and take more requests
/// to find the newest.
const FEW_SHARDS: i32 = 32;
pub(crate) const MANY_SHARDS: i32 = 1_024;
pub(crate) const STEPS: [i32; 2] = [FEW_SHARDS, MANY_SHARDS];
/// Rows of a shard at which a key moves to the next number of shards: well below the 100,000 at
/// which servers warn.
pub(crate) const ROWS_PER_SHARD: u64 = 50_000;
/// The hot keys of a table, by keyed hash.
#[derive(Debug, Clone)]
pub(crate) struct HotKeys {
    key: ErasureKey,
    shards_of: HashMap<u128, Vec<Shards>>,
}

/// A number of shards of a key, and when this process learned of it; `None` if long ago.
#[derive(Debug, Clone, Copy)]
struct Shards {
    number: i32,
    since: Option<Instant>,
}

impl HotKeys {
    pub(crate) fn new(key: ErasureKey) -> HotKeys {
        HotKeys { key, shards_of: HashMap::new() }
    }

    /// Whether there is no hot key.
    pub(crate) fn is_empty(&self) -> bool {
        self.shards_of.is_empty()
    }

    /// Adds a number of shards of a key, and when this process learned of it; `None` if long ago.
    pub(crate) fn add(&mut self, hash: u128, number: i32, since: Option<Instant>) {
        let known = self.shards_of.entry(hash).or_default();
        if known.iter().all(|shards| shards.number != number) {
            known.push(Shards { number, since });
        }
    }

    /// The keyed hash of a key.
    pub(crate) fn hash(&self, by: Side, key: &str) -> u128 {
        match by {
            Side::Id => self.key.id(key.as_bytes()),
            Side::PartnerId => self.key.partner_id(key.as_bytes()),
        }
    }

    fn of(&self, by: Side, key: &str) -> &[Shards] {
        if self.shards_of.is_empty() {
            return &[];
        }
        self.shards_of.get(&self.hash(by, key)).map_or(&[], Vec::as_slice)
    }

    /// The number of shards in which a key may have rows; `None` if it is not hot.
    pub(crate) fn shards(&self, by: Side, key: &str) -> Option<i32> {
        self.of(by, key).iter().map(|shards| shards.number).max()
    }

    /// The number of shards for new rows of a key: the largest that every client knows. `None`
    /// means its bucket.
    pub(crate) fn shards_to_write(
        &self,
        by: Side,
        key: &str,
        metadata_ttl: Duration,
    ) -> Option<i32> {
        let is_everywhere =
            |shards: &&Shards| shards.since.is_none_or(|since| since.elapsed() >= metadata_ttl);
        self.of(by, key).iter().filter(is_everywhere).map(|shards| shards.number).max()
    }
}

/// The number of shards for a key with this many rows; `None` if it is not hot.
pub(crate) fn shards_for(rows: u64, hot_rows: u64) -> Option<i32> {
    let step = |shards: &i32| rows <= u64::from(shards.unsigned_abs()) * ROWS_PER_SHARD;
    (rows > hot_rows).then(|| STEPS.into_iter().find(step).unwrap_or(MANY_SHARDS))
}

/// All numbers of shards in which a key may have rows.
pub(crate) fn steps(shards: i32) -> impl Iterator<Item = i32> {
    STEPS.into_iter().filter(move |step| *step <= shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_as_many_parts_as_its_rows_need() {
        let shards = [10, 11, 1_600_000, 1_600_001, u64::MAX].map(|rows| shards_for(rows, 10));
        assert_eq!(shards, [None, Some(32), Some(32), Some(1_024), Some(1_024)]);
        assert_eq!(steps(32).collect::<Vec<_>>(), [32]);
        assert_eq!(steps(1_024).collect::<Vec<_>>(), [32, 1_024]);
    }
}
