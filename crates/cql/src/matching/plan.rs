//! Which reads answer the keys of a bucket: chosen when it is their turn, by what the ones before did cost.

use super::cost::Costs;
use super::population::{Key, Keys};
use crate::hot::HotKeys;
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

/// What decides between the ways.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chooser<'c> {
    pub(super) reads: MatchReads,
    pub(super) costs: &'c Costs,
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
            MatchReads::Auto => chooser.costs.choose(keys, list),
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
                Read::Keys | Read::Bucket => {
                    let each = usize::try_from(keys / requests).unwrap_or(usize::MAX);
                    chooser.costs.shown(list_of(each))
                }
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
