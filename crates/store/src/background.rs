//! What fails in the background of a store, where nobody waits for it. Must not know what the work is.

use crate::now;
use idmatch_model::{SeenAt, TableId};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Work of the background that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundError {
    /// The work, such as `flush`.
    pub work: &'static str,
    /// Why it failed last, without identifiers.
    pub error: String,
    /// Since when it fails: the first failure after its last success.
    pub since: SeenAt,
    /// When it failed last.
    pub last: SeenAt,
    /// How often it has failed since then.
    pub failures: u64,
}

/// The background work of one store that fails at present, and how often any has failed.
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
    /// None yet, of this work.
    pub fn of_work(works: &[&'static str]) -> BackgroundErrors {
        let errors = BackgroundErrors::default();
        for work in works {
            drop(errors.failures.get_or_create(&OfWork { work }));
        }
        errors
    }

    /// Says that work has failed, with a text without identifiers; returns how often, since it last succeeded.
    pub fn failed(&self, work: &'static str, table: Option<TableId>, error: String) -> u64 {
        self.failures.get_or_create(&OfWork { work }).inc();
        let (last, mut failing) = (now(), self.lock());
        let since = BackgroundError { work, error: String::new(), since: last, last, failures: 0 };
        let known = failing.entry((work, table)).or_insert(since);
        (known.error, known.last) = (error, last);
        known.failures += 1;
        known.failures
    }

    /// Says that work has succeeded; returns how often it had failed before.
    pub fn succeeded(&self, work: &'static str, table: Option<TableId>) -> u64 {
        self.lock().remove(&(work, table)).map_or(0, |known| known.failures)
    }

    /// Why some work fails; `None` where it does not.
    pub fn of(&self, work: &'static str, table: Option<TableId>) -> Option<BackgroundError> {
        self.lock().get(&(work, table)).cloned()
    }

    /// Whether work fails, of any table.
    pub fn fails(&self, work: &'static str) -> bool {
        self.lock().keys().any(|(failing, _)| *failing == work)
    }

    /// Forgets tables that were dropped.
    pub fn keep_tables(&self, is_there: impl Fn(TableId) -> bool) {
        self.lock().retain(|(_, table), _| table.is_none_or(&is_there));
    }

    /// The last failure of the work that fails at present.
    pub fn last(&self) -> Option<BackgroundError> {
        self.lock().values().max_by_key(|known| known.last).cloned()
    }

    /// Adds how often work has failed, and how much of it fails at present.
    pub fn register(&self, registry: &mut Registry) {
        let about = "Background work that failed, by its name";
        registry.register("background_failures", about, self.failures.clone());
        let now = self.lock().keys().map(|(work, _)| *work).collect::<BTreeSet<_>>().len();
        let about = "Kinds of background work that fail at present";
        registry.register("background_work_failing", about, ConstGauge::new(now as i64));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Subject, BackgroundError>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
