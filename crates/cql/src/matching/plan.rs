//! Which reads answer the keys of a bucket: an IN query or a scan of the partition, whichever costs less.
//!
//! Must not know how reads are sent.

use super::population::{Key, Keys};
use crate::schema::bucket::{self, BucketRows};
use crate::schema::hot_keys::HotKeys;
use crate::settings::MatchReads;
use idmatch_model::Side;
use idmatch_store::PlanStep;
use std::borrow::Cow;

/// How some keys are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// The only one of its bucket.
    Key,
    /// By their list.
    Keys,
    /// With all others of their bucket.
    Bucket,
    /// The only one, which has very many rows.
    Hot,
}

impl Read {
    const ALL: [Read; 4] = [Read::Key, Read::Keys, Read::Bucket, Read::Hot];

    fn name(self) -> &'static str {
        match self {
            Read::Key => "single keys",
            Read::Keys => "lists of keys",
            Read::Bucket => "whole buckets",
            Read::Hot => "keys with very many rows",
        }
    }
}

/// Keys that one request lists at most: ScyllaDB takes no more by default
/// (`max_clustering_key_restrictions_per_query`).
const MOST_KEYS: usize = 100;

/// How many keys each list has: as few lists as may be, and of one length.
fn list_of(keys: usize) -> usize {
    keys.div_ceil(keys.div_ceil(MOST_KEYS).max(1))
}

/// A key of an IN query costs as much as this many rows of a partition scan. Found on one warm
/// Cassandra node.
const READ_COST_RATIO: f64 = 2.2;
/// One bucket in this many is scanned to count its rows, the first one among them: a table may outgrow the
/// number of rows that it was made for.
const COUNTED_EVERY_BUCKETS: u64 = 1_024;
/// Only where this many keys of it are asked for: for fewer, a scan costs too much for the count alone.
const COUNTED_FROM_KEYS: usize = bucket::ROWS / 50;

/// What decides between the ways.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chooser<'c> {
    pub(super) reads: MatchReads,
    pub(super) rows: &'c BucketRows,
}

impl Chooser<'_> {
    fn cheaper(&self, keys: usize) -> Read {
        let is_counted =
            keys >= COUNTED_FROM_KEYS && self.rows.choose().is_multiple_of(COUNTED_EVERY_BUCKETS);
        let is_list_cheaper = keys as f64 * READ_COST_RATIO < self.rows.expected();
        if is_list_cheaper && !is_counted { Read::Keys } else { Read::Bucket }
    }

    fn reason(&self) -> String {
        format!(
            "a key of a list costs as much as {READ_COST_RATIO} rows of a bucket, and buckets have about \
             {:.0} rows",
            self.rows.expected()
        )
    }
}

/// How the keys of a bucket are read.
pub(super) struct Plan<'k> {
    /// Those that have very many rows.
    hot: Vec<Key>,
    others: Cow<'k, [Key]>,
    read: Read,
    /// So many of the others in a request.
    at_once: usize,
}

impl<'k> Plan<'k> {
    /// For the keys of a bucket, which are among `all`.
    pub(super) fn new(
        (all, bucket): (&Keys, &'k [Key]),
        (by, hot, chooser): (Side, &HotKeys, Chooser<'_>),
    ) -> Plan<'k> {
        let is_hot = |key: &Key| hot.parts(by, all.text(key)).is_some();
        let (hot, others) = if bucket.iter().any(is_hot) {
            let (hot, others) = bucket.iter().cloned().partition(is_hot);
            (hot, Cow::Owned(others))
        } else {
            (Vec::new(), Cow::Borrowed(bucket))
        };
        let keys = others.len();
        let list = list_of(keys);
        let read = match chooser.reads {
            MatchReads::Keys => Read::Key,
            _ if keys <= 1 => Read::Key,
            MatchReads::Lists => Read::Keys,
            MatchReads::Buckets => Read::Bucket,
            MatchReads::Auto => chooser.cheaper(keys),
        };
        let at_once = match read {
            Read::Key | Read::Hot => 1,
            Read::Keys => list,
            Read::Bucket => keys,
        };
        Plan { hot, others, read, at_once }
    }

    /// Which keys are read together, and how.
    pub(super) fn requests(&self) -> impl Iterator<Item = (Read, &[Key])> {
        let hot = self.hot.chunks(1).map(|key| (Read::Hot, key));
        hot.chain(self.others.chunks(self.at_once).map(|keys| (self.read, keys)))
    }
}

/// How often something was read in each way, and for how many keys.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally([(u64, u64); Read::ALL.len()]);

impl Tally {
    pub(super) fn add(&mut self, read: Read, keys: usize) {
        for (kind, (reads, all)) in Read::ALL.iter().zip(&mut self.0) {
            if *kind == read {
                *reads += 1;
                *all += keys as u64;
            }
        }
    }

    /// What was read in which ways, and why.
    pub(super) fn steps(&self, chooser: Chooser<'_>) -> Vec<PlanStep> {
        let is_told = chooser.reads != MatchReads::Auto;
        let step = |(read, (requests, keys)): (&Read, &(u64, u64))| PlanStep {
            how: read.name(),
            requests: *requests,
            keys: *keys,
            why: match read {
                Read::Key | Read::Keys | Read::Bucket if is_told => {
                    "match_reads says so".to_owned()
                }
                Read::Key => "no other key of their bucket is asked for".to_owned(),
                Read::Keys | Read::Bucket => chooser.reason(),
                Read::Hot => "they are kept apart, in parts".to_owned(),
            },
        };
        Read::ALL.iter().zip(&self.0).filter(|(_, tally)| tally.0 > 0).map(step).collect()
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        for ((reads, keys), (more, others)) in self.0.iter_mut().zip(other.0) {
            *reads += more;
            *keys += others;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(keys: usize, rows: &BucketRows) -> Vec<Read> {
        let chooser = Chooser { reads: MatchReads::Auto, rows };
        (0..1_000).map(|_| chooser.cheaper(keys)).collect()
    }

    #[test]
    fn lists_or_buckets_by_cost_ratio() {
        for (keys, better) in [(60, Read::Keys), (400, Read::Keys), (3_200, Read::Bucket)] {
            let reads = chosen(keys, &BucketRows::default());
            // The first one counts rows, where enough keys are asked for.
            assert_eq!(reads[0] == Read::Bucket, keys > 60);
            assert!(reads[1..].iter().all(|read| *read == better), "{keys}");
        }
    }

    #[test]
    fn counted_rows_decide() {
        for (counted, keys, better) in [(40_000, 3_200, Read::Keys), (40, 100, Read::Bucket)] {
            let rows = BucketRows::default();
            rows.count(counted);
            assert!(chosen(keys, &rows)[1..].iter().all(|read| *read == better), "{counted}");
        }
    }
}
