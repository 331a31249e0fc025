//! The failures of a store's background work, for which no caller waits. Must not know what the work is.

use crate::locks::Mutex;
use crate::now;
use idmatch_model::{SeenAt, TableId};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};

/// Background work that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundError {
    /// The name of the work, such as `flush`.
    pub work: &'static str,
    /// The text of its last failure, without identifiers.
    pub error: String,
    /// The time of the first failure after its last success.
    pub since: SeenAt,
    /// The time of its last failure.
    pub last: SeenAt,
    /// The number of failures since its last success.
    pub failures: u64,
}

/// The background work of one store that fails at present, and counters of all failures.
#[derive(Debug, Default)]
pub struct BackgroundErrors {
    failing: Mutex<BTreeMap<Subject, BackgroundError>>,
    failures: Family<OfWork, Counter>,
}

/// Some work, and the table that it is about; `None` for the whole store.
type Subject = (&'static str, Option<TableId>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfWork {
    work: &'static str,
}

impl BackgroundErrors {
    /// Starts without failures, and counts the failures of each of these works from 0.
    pub fn of_work(works: &[&'static str]) -> BackgroundErrors {
        let errors = BackgroundErrors::default();
        for work in works {
            drop(errors.failures.get_or_create(&OfWork { work }));
        }
        errors
    }

    /// Notes that work has failed, with a text without identifiers. Returns the number of its failures since
    /// it last succeeded.
    pub fn failed(&self, work: &'static str, table: Option<TableId>, error: String) -> u64 {
        self.failures.get_or_create(&OfWork { work }).inc();
        let (last, mut failing) = (now(), self.failing.lock());
        let since = BackgroundError { work, error: String::new(), since: last, last, failures: 0 };
        let known = failing.entry((work, table)).or_insert(since);
        (known.error, known.last) = (error, last);
        known.failures += 1;
        known.failures
    }

    /// Notes that work has succeeded; returns the number of its failures before.
    pub fn succeeded(&self, work: &'static str, table: Option<TableId>) -> u64 {
        self.failing.lock().remove(&(work, table)).map_or(0, |known| known.failures)
    }

    /// The failure of some work; `None` where it does not fail.
    pub fn of(&self, work: &'static str, table: Option<TableId>) -> Option<BackgroundError> {
        self.failing.lock().get(&(work, table)).cloned()
    }

    /// Whether work fails, for any table or for the store.
    pub fn fails(&self, work: &'static str) -> bool {
        self.failing.lock().keys().any(|(failing, _)| *failing == work)
    }

    /// Forgets tables that were dropped.
    pub fn keep_tables(&self, is_there: impl Fn(TableId) -> bool) {
        self.failing.lock().retain(|(_, table), _| table.is_none_or(&is_there));
    }

    /// The failing work that has failed last.
    pub fn last(&self) -> Option<BackgroundError> {
        self.failing.lock().values().max_by_key(|known| known.last).cloned()
    }

    /// Adds the number of failures of each work, and of the kinds of work that fail at present.
    pub fn register(&self, registry: &mut Registry) {
        let about = "Background work that failed, by its name";
        registry.register("background_failures", about, self.failures.clone());
        let now = self.failing.lock().keys().map(|(work, _)| *work).collect::<BTreeSet<_>>().len();
        let about = "Kinds of background work that fail at present";
        registry.register("background_work_failing", about, ConstGauge::new(now as i64));
    }
}
