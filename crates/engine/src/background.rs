//! Background work, for which no caller waits. Its failures and panics are kept, counted and logged, and it
//! is tried again after growing pauses. Must not know what the work is.

use crate::identity::Identity;
use crate::sync::{self, Instant, Mutex};
use idmatch_model::{TableId, TableName};
use idmatch_store::{BackgroundError, BackgroundErrors, Error, ErrorKind, Result};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tracing::{error, info};

/// Memtables become segments.
pub(crate) const FLUSH: &str = "flush";
/// Segments are compacted; rows beyond the retention are dropped.
pub(crate) const COMPACTION: &str = "compaction";
/// The journal is synced later than its upserts were acknowledged.
pub(crate) const SYNC: &str = "sync";

/// The pause after the first failure; each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The background work of a store.
pub(crate) struct Background {
    pub(crate) errors: BackgroundErrors,
    /// The time from which failed work may be tried again.
    next: Mutex<HashMap<(&'static str, Option<TableId>), Instant>>,
}

/// The table that work is about.
type OfTable<'a> = Option<(Identity, &'a TableName)>;

impl Default for Background {
    fn default() -> Background {
        let errors = BackgroundErrors::of_work(&[FLUSH, COMPACTION, SYNC]);
        Background { errors, next: Mutex::default() }
    }
}

impl Background {
    /// Runs work, and keeps its failure. A panic in it is an error.
    pub(crate) fn run<T>(
        &self,
        work: &'static str,
        table: OfTable<'_>,
        run: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Internal, format!("the {work} panicked; the log says where")))
        });
        match &outcome {
            Ok(_) => self.succeeded(work, table),
            // Work that was given up has neither failed nor succeeded.
            Err(e) if e.kind() == ErrorKind::Cancelled => {}
            Err(e) => self.failed(work, table, e),
        }
        outcome
    }

    /// Forgets the failures of work.
    pub(crate) fn succeeded(&self, work: &'static str, table: OfTable<'_>) {
        let failures = self.errors.succeeded(work, id_of(table));
        if failures > 0 {
            info!(work, table = name_of(table), failures, "background work succeeds again");
        }
    }

    /// Keeps a failure.
    pub(crate) fn failed(&self, work: &'static str, table: OfTable<'_>, error: &Error) {
        let error = match table {
            Some((_, name)) => format!("table {name}: {}", error.chain()),
            None => error.chain(),
        };
        let failures = self.errors.failed(work, id_of(table), error.clone());
        let pause = FIRST_PAUSE.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST_PAUSE);
        self.next.lock().insert((work, id_of(table)), sync::instant() + pause);
        error!(work, table = name_of(table), failures, error, "background work failed");
    }

    /// The failure of work for the whole store; `None` where it does not fail.
    pub(crate) fn failure(&self, work: &'static str) -> Option<BackgroundError> {
        self.errors.of(work, None)
    }

    /// Whether work may begin: it does not fail, or the pause after its last failure is over.
    pub(crate) fn is_due(&self, work: &'static str, table: Option<Identity>) -> bool {
        let subject = (work, table.map(TableId::from));
        self.errors.of(work, subject.1).is_none()
            || self.next.lock().get(&subject).is_none_or(|next| sync::instant() >= *next)
    }

    /// Forgets the failures of tables that were dropped.
    pub(crate) fn keep_tables(&self, is_there: impl Fn(Identity) -> bool) {
        let is_there = |table: TableId| is_there(table.into());
        self.errors.keep_tables(is_there);
        self.next.lock().retain(|(_, table), _| table.is_none_or(&is_there));
    }
}

fn id_of(table: OfTable<'_>) -> Option<TableId> {
    table.map(|(id, _)| id.into())
}

/// The name of the table; empty for the whole store.
fn name_of(table: OfTable<'_>) -> &str {
    table.map_or("", |(_, name)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_fails_keeps_back_no_other() {
        let background = Background::default();
        let names = ["a", "b"].map(|name| name.parse::<TableName>().unwrap());
        let ids = [1, 2].map(|id| Identity::from(TableId(id)));
        let [a, b] = [0, 1].map(|at| Some((ids[at], &names[at])));
        let fails = || Err::<(), _>(Error::new(ErrorKind::Corrupt, "damaged"));
        // The pause is minutes by now.
        for _ in 0..12 {
            background.run(COMPACTION, a, fails).unwrap_err();
        }
        assert!(!background.is_due(COMPACTION, Some(ids[0])));
        assert!(background.is_due(COMPACTION, Some(ids[1])));
        background.run(COMPACTION, b, || Ok(())).unwrap();
        let failing = background.errors.last().unwrap();
        assert_eq!((failing.failures, &*failing.error), (12, "table a: damaged"));

        background.keep_tables(|id| id == ids[1]);
        assert_eq!(background.errors.last(), None);
        assert!(background.is_due(COMPACTION, Some(ids[0])));
    }
}
