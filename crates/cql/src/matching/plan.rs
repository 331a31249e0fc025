//! The read planner. For the keys of a bucket it chooses an IN query or a partition scan, whichever costs
//! less. One key is read by itself, and so is each hot key.
//!
//! The rows that a scan would read are estimated by `schema::bucket::BucketRows`, a moving average of the buckets
//! that were scanned. Of the buckets with enough keys, one in 1,024 is scanned to count it, because a table may
//! outgrow its expected rows.
//! The setting `match_reads` overrides the choice. Must not know how reads are sent. Invariant: each key of a
//! bucket is in exactly one request.

use super::population::{BucketKeys, Key};
use crate::schema::bucket::{self, BucketRows};
use crate::schema::hot_keys::HotKeys;
use crate::settings::MatchReads;
use idmatch_model::Side;
use idmatch_store::PlanStep;
use std::borrow::Cow;

/// How a request reads its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// The only key of its bucket.
    Key,
    /// An IN query.
    Keys,
    /// A partition scan.
    Bucket,
    /// One hot key.
    Hot,
}

impl Read {
    const ALL: [Read; 4] = [Read::Key, Read::Keys, Read::Bucket, Read::Hot];

    fn name(self) -> &'static str {
        match self {
            Read::Key => "single keys",
            Read::Keys => "IN queries",
            Read::Bucket => "partition scans",
            Read::Hot => "hot keys",
        }
    }
}

/// Keys of one IN query at most: ScyllaDB takes no more by default
/// (`max_clustering_key_restrictions_per_query`).
const MOST_KEYS: usize = 100;

/// The number of keys in each IN query: as few queries as possible, of equal length.
fn keys_per_query(keys: usize) -> usize {
    keys.div_ceil(keys.div_ceil(MOST_KEYS).max(1))
}

/// The cost of a key in an IN query, in rows of a partition scan. Measured on one warm Cassandra
/// node.
const READ_COST_RATIO: f64 = 2.2;
/// One bucket in this many is scanned to count its rows, the first one included: a table may outgrow its
/// expected number of rows.
const COUNTED_EVERY_BUCKETS: u64 = 1_024;
/// The least keys of a bucket that is scanned to count it: for fewer, the count is not worth a scan.
const COUNTED_FROM_KEYS: usize = bucket::ROWS / 50;

/// Chooses how each bucket is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadPlanner<'c> {
    pub(super) reads: MatchReads,
    pub(super) rows: &'c BucketRows,
}

impl ReadPlanner<'_> {
    fn cheaper(&self, keys: usize) -> Read {
        let is_counted =
            keys >= COUNTED_FROM_KEYS && self.rows.choose().is_multiple_of(COUNTED_EVERY_BUCKETS);
        let is_query_cheaper = keys as f64 * READ_COST_RATIO < self.rows.expected();
        if is_query_cheaper && !is_counted { Read::Keys } else { Read::Bucket }
    }

    fn reason(&self) -> String {
        format!(
            "a key of a list costs as much as {READ_COST_RATIO} rows of a bucket, and buckets have about \
             {:.0} rows",
            self.rows.expected()
        )
    }
}

/// The plan for the keys of a bucket.
pub(super) struct Plan<'k> {
    /// The hot keys.
    hot: Vec<Key>,
    others: Cow<'k, [Key]>,
    read: Read,
    /// Keys of each request for the others.
    at_once: usize,
}

impl<'k> Plan<'k> {
    /// Plans the keys of a bucket, which are among `all`.
    pub(super) fn new(
        (all, bucket): (&BucketKeys, &'k [Key]),
        (by, hot, planner): (Side, &HotKeys, ReadPlanner<'_>),
    ) -> Plan<'k> {
        let is_hot = |key: &Key| hot.shards(by, all.text(key)).is_some();
        let (hot, others) = if bucket.iter().any(is_hot) {
            let (hot, others) = bucket.iter().cloned().partition(is_hot);
            (hot, Cow::Owned(others))
        } else {
            (Vec::new(), Cow::Borrowed(bucket))
        };
        let keys = others.len();
        let per_query = keys_per_query(keys);
        let read = match planner.reads {
            MatchReads::SingleKeys => Read::Key,
            _ if keys <= 1 => Read::Key,
            MatchReads::InQueries => Read::Keys,
            MatchReads::PartitionScans => Read::Bucket,
            MatchReads::Auto => planner.cheaper(keys),
        };
        let at_once = match read {
            Read::Key | Read::Hot => 1,
            Read::Keys => per_query,
            Read::Bucket => keys,
        };
        Plan { hot, others, read, at_once }
    }

    /// The keys of each request, and how it reads them.
    pub(super) fn requests(&self) -> impl Iterator<Item = (Read, &[Key])> {
        let hot = self.hot.chunks(1).map(|key| (Read::Hot, key));
        hot.chain(self.others.chunks(self.at_once).map(|keys| (self.read, keys)))
    }
}

/// Requests and keys of each kind of read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReadCounts([(u64, u64); Read::ALL.len()]);

impl ReadCounts {
    pub(super) fn add(&mut self, read: Read, keys: usize) {
        for (kind, (reads, all)) in Read::ALL.iter().zip(&mut self.0) {
            if *kind == read {
                *reads += 1;
                *all += keys as u64;
            }
        }
    }

    /// The steps of the plan, each with its reason.
    pub(super) fn steps(&self, planner: ReadPlanner<'_>) -> Vec<PlanStep> {
        let is_told = planner.reads != MatchReads::Auto;
        let step = |(read, (requests, keys)): (&Read, &(u64, u64))| PlanStep {
            how: read.name(),
            requests: *requests,
            keys: *keys,
            why: match read {
                Read::Key | Read::Keys | Read::Bucket if is_told => {
                    "match_reads says so".to_owned()
                }
                Read::Key => "no other key of their bucket is asked for".to_owned(),
                Read::Keys | Read::Bucket => planner.reason(),
                Read::Hot => "their rows are in shards".to_owned(),
            },
        };
        Read::ALL
            .iter()
            .zip(&self.0)
            .filter(|(_, read_counts)| read_counts.0 > 0)
            .map(step)
            .collect()
    }
}

impl std::ops::AddAssign for ReadCounts {
    fn add_assign(&mut self, other: ReadCounts) {
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
        let planner = ReadPlanner { reads: MatchReads::Auto, rows };
        (0..1_000).map(|_| planner.cheaper(keys)).collect()
    }

    #[test]
    fn lists_or_buckets_by_cost_ratio() {
        for (keys, better) in [(60, Read::Keys), (400, Read::Keys), (3_200, Read::Bucket)] {
            let reads = chosen(keys, &BucketRows::default());
            // The first bucket counts rows, where enough keys are asked for.
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
