//! The counters of the engine about one directory in this process, for Prometheus. The code that does the
//! work adds to them. Labels have fixed sets of values. Must not know a table, a path or who counts.

use crate::sync::{self, AtomicU64};
use idmatch_store::durations;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Why an upsert waits in a write stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stall {
    /// Compactions are behind: upserts are slowed down.
    Slowdown,
    /// Compactions are far behind: upserts wait for them.
    Stop,
    /// Memtables are full: upserts wait for a flush.
    Memtable,
}

impl Stall {
    const ALL: [Stall; 3] = [Stall::Slowdown, Stall::Stop, Stall::Memtable];

    fn labels(self) -> OfStall {
        OfStall {
            reason: match self {
                Stall::Slowdown => "slowdown",
                Stall::Stop => "stop",
                Stall::Memtable => "memtable",
            },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStall {
    reason: &'static str,
}

/// Counters of one directory.
pub(crate) struct Metrics {
    commits: Counter,
    committed_rows: Counter,
    pub(crate) journal_sync: Histogram,
    pub(crate) flush: Histogram,
    pub(crate) flushed_rows: Counter,
    pub(crate) compaction: Histogram,
    pub(crate) compacted_bytes: Counter,
    stalls: Family<OfStall, Counter<f64, AtomicU64>>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let stalls = Family::default();
        for stall in Stall::ALL {
            drop(stalls.get_or_create(&stall.labels()));
        }
        Metrics {
            commits: Counter::default(),
            committed_rows: Counter::default(),
            journal_sync: durations(),
            flush: durations(),
            flushed_rows: Counter::default(),
            compaction: durations(),
            compacted_bytes: Counter::default(),
            stalls,
        }
    }
}

impl Metrics {
    /// Counts a commit of batches that have these numbers of rows.
    pub(crate) fn committed(&self, rows: impl Iterator<Item = u32>) {
        self.commits.inc();
        self.committed_rows.inc_by(rows.map(u64::from).sum());
    }

    /// Counts the time for which an upsert waits.
    pub(crate) fn stall<T>(&self, stall: Stall, wait: impl FnOnce() -> T) -> T {
        let began = sync::instant();
        let waited = wait();
        self.stalls.get_or_create(&stall.labels()).inc_by(began.elapsed().as_secs_f64());
        waited
    }

    /// Adds these figures to others.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let about = "Commits of upserts to the journal; each may have rows of several callers";
        registry.register("journal_commits", about, self.commits.clone());
        let about = "Rows of these commits";
        registry.register("journal_rows", about, self.committed_rows.clone());
        let about = "Syncs of the journal: how long the disk takes to make a commit durable";
        let seconds = || Unit::Seconds;
        registry.register_with_unit(
            "journal_sync_duration",
            about,
            seconds(),
            self.journal_sync.clone(),
        );
        let about = "Flushes: memtables become segments";
        registry.register_with_unit("flush_duration", about, seconds(), self.flush.clone());
        registry.register("flushed_rows", "Rows of these flushes", self.flushed_rows.clone());
        let about = "Compactions, those that a caller waits for included";
        registry.register_with_unit(
            "compaction_duration",
            about,
            seconds(),
            self.compaction.clone(),
        );
        let about = "Bytes of segments that compactions have read";
        registry.register_with_unit("compacted", about, Unit::Bytes, self.compacted_bytes.clone());
        let about = "Time that upserts have waited, by the reason";
        registry.register_with_unit("write_stall", about, seconds(), self.stalls.clone());
    }
}
