//! What became of each attempt that the driver made for one request.
//!
//! The driver itself tells of the last one only; it may have asked several nodes, one after another and
//! at once.

use crate::error::{attempt_outcome, counts_copies, is_overload};
use parking_lot::Mutex;
use scylla::errors::{DbError, RequestAttemptError, RequestError};
use scylla::observability::history::{AttemptId, HistoryListener, RequestId, SpeculativeId};
use scylla::policies::retry::RetryDecision;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The attempts for one request, repeated or not.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// What was sent.
    sent: AtomicU64,
    /// What was answered so that it certainly was not done.
    undone: AtomicU64,
    /// Whether a server had too much to do.
    met_overload: AtomicBool,
    /// The last answer that counts copies.
    counted: Mutex<Option<DbError>>,
}

impl Attempts {
    /// What was sent until now.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Whether an attempt may have been done. When this is asked, all that was sent has been noted: the
    /// driver does it in the caller's own task.
    pub(super) fn may_be_done(&self) -> bool {
        self.sent() > self.undone.load(Relaxed)
    }

    /// The last answer that says how many copies were needed, and how many there were.
    pub(super) fn counted(&self) -> Option<DbError> {
        self.counted.lock().clone()
    }

    /// Whether a server had too much to do since this was last asked.
    pub(super) fn met_overload(&self) -> bool {
        self.met_overload.swap(false, Relaxed)
    }
}

impl HistoryListener for Attempts {
    fn log_request_start(&self) -> RequestId {
        RequestId(0)
    }

    fn log_request_success(&self, _: RequestId) {}

    fn log_request_error(&self, _: RequestId, _: &RequestError) {}

    fn log_new_speculative_fiber(&self, _: RequestId) -> SpeculativeId {
        SpeculativeId(0)
    }

    fn log_attempt_start(
        &self,
        _: RequestId,
        _: Option<SpeculativeId>,
        _: SocketAddr,
    ) -> AttemptId {
        self.sent.fetch_add(1, Relaxed);
        AttemptId(0)
    }

    fn log_attempt_success(&self, _: AttemptId) {}

    fn log_attempt_error(&self, _: AttemptId, error: &RequestAttemptError, _: &RetryDecision) {
        if !attempt_outcome(error).may_be_done() {
            self.undone.fetch_add(1, Relaxed);
        }
        if is_overload(error) {
            self.met_overload.store(true, Relaxed);
        }
        if let Some(answer) = counts_copies(error) {
            *self.counted.lock() = Some(answer.clone());
        }
    }
}
