//! Which reads answer a population: cut when they are made, by what the ones before did cost.

use super::cost::Costs;
use super::population::{Entry, Population};
use crate::hot::HotKeys;
use crate::settings::MatchReads;
use idmatch_model::Side;
use idmatch_store::PlanStep;
use std::ops::Range;

/// Keys that one request asks for at most: ScyllaDB takes no more by default.
const MOST_KEYS: usize = 100;

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

/// What decides between the ways.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chooser<'c> {
    pub(super) reads: MatchReads,
    pub(super) costs: &'c Costs,
}

/// A read: some entries of one bucket.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) read: Read,
    pub(super) entries: Range<usize>,
}

/// Cuts the entries of a population into reads, one after the other.
#[derive(Debug, Default)]
pub(super) struct Planner {
    next: usize,
    /// Up to here keys are read by lists.
    lists_until: usize,
}

impl Planner {
    /// The next read; `None` when all entries have one.
    pub(super) fn next(
        &mut self,
        population: &Population,
        (by, hot, chooser): (Side, &HotKeys, Chooser<'_>),
    ) -> Option<Request> {
        let rest = population.entries.get(self.next..)?;
        let first = rest.first()?;
        let is_hot = |entry: &Entry| hot.parts(by, population.key(entry)).is_some();
        let is_listed = self.next < self.lists_until;
        let (read, keys) = if is_listed {
            (Read::Keys, self.lists_until - self.next)
        } else if is_hot(first) {
            (Read::Hot, 1)
        } else {
            let is_other = |entry: &Entry| entry.bucket != first.bucket || is_hot(entry);
            let keys = rest.iter().position(is_other).unwrap_or(rest.len());
            match chooser.reads {
                MatchReads::Keys => (Read::Key, 1),
                _ if keys == 1 => (Read::Key, 1),
                MatchReads::Lists => (Read::Keys, keys),
                MatchReads::Buckets => (Read::Bucket, keys),
                MatchReads::Auto => (chooser.costs.choose(keys, MOST_KEYS), keys),
            }
        };
        let mut end = self.next + keys;
        if read == Read::Keys {
            self.lists_until = end;
            end = end.min(self.next + MOST_KEYS);
        }
        let entries = self.next..end;
        self.next = end;
        Some(Request { read, entries })
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
                Read::Keys | Read::Bucket => chooser.costs.shown(*keys as f64 / *requests as f64),
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
