//! Work that nobody waits for: its failures and panics are kept, counted and logged, and it is tried again after
//! growing pauses. Must not know what the work is.

use crate::sync::{self, Instant, Mutex};
use idmatch_store::{BackgroundError, BackgroundErrors, Error, ErrorKind, Result};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tracing::{error, info};

/// Memtables become segments.
pub(crate) const FLUSH: &str = "flush";
/// Segments are compacted; rows beyond the retention go.
pub(crate) const COMPACTION: &str = "compaction";
/// The journal is synced later than its upserts were acknowledged.
pub(crate) const SYNC: &str = "sync";

/// The pause after the first failure; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The background work of a store.
pub(crate) struct Background {
    pub(crate) errors: BackgroundErrors,
    /// When work that has failed is to be tried again.
    next: Mutex<HashMap<&'static str, Instant>>,
}

impl Default for Background {
    fn default() -> Background {
        let errors = BackgroundErrors::of_work(&[FLUSH, COMPACTION, SYNC]);
        Background { errors, next: Mutex::default() }
    }
}

impl Background {
    /// Does work, and keeps its failure. A panic in it is an error.
    pub(crate) fn run<T>(&self, work: &'static str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Internal, format!("the {work} panicked; the log says where")))
        });
        match &outcome {
            Ok(_) => {
                let failures = self.errors.succeeded(work);
                if failures > 0 {
                    info!(work, failures, "background work succeeds again");
                }
            }
            // Work that was given up says nothing.
            Err(e) if e.kind() == ErrorKind::Cancelled => {}
            Err(e) => self.failed(work, e),
        }
        outcome
    }

    /// Keeps a failure.
    pub(crate) fn failed(&self, work: &'static str, error: &Error) {
        let error = error.chain();
        let failures = self.errors.failed(work, error.clone());
        let pause = FIRST_PAUSE.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST_PAUSE);
        self.next.lock().insert(work, sync::instant() + pause);
        error!(work, failures, error, "background work failed");
    }

    /// Why work fails; `None` where it does not.
    pub(crate) fn failure(&self, work: &'static str) -> Option<BackgroundError> {
        self.errors.of(work)
    }

    /// Whether work may begin: it does not fail, or the pause after its last failure is over.
    pub(crate) fn is_due(&self, work: &'static str) -> bool {
        self.failure(work).is_none()
            || self.next.lock().get(work).is_none_or(|next| sync::instant() >= *next)
    }
}
