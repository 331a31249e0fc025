//! Records the outcome of each attempt that the driver makes for one request.
//!
//! The driver itself reports the last attempt only. It may have asked several nodes, one after another
//! and at once.

use super::metrics::{ClientMetrics, RunningAttempts};
use crate::error::{attempt_outcome, is_overload, replica_counts};
use idmatch_store::locks::Mutex;
use scylla::errors::{DbError, RequestAttemptError, RequestError};
use scylla::observability::history::{AttemptId, HistoryListener, RequestId, SpeculativeId};
use scylla::policies::retry::RetryDecision;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tracing::debug;

/// The attempts for one request, with its retries.
#[derive(Debug)]
pub(super) struct RequestHistory {
    metrics: Arc<ClientMetrics>,
    running: RunningAttempts,
    /// Attempts that were sent.
    sent: AtomicU64,
    /// Attempts that were certainly not applied, by their answers.
    undone: AtomicU64,
    /// Whether a server was overloaded.
    met_overload: AtomicBool,
    /// The last answer that counts replicas.
    counted: Mutex<Option<DbError>>,
}

impl RequestHistory {
    /// Starts an empty record of attempts. They are counted in `metrics`.
    pub(super) fn new(metrics: &Arc<ClientMetrics>) -> Arc<RequestHistory> {
        Arc::new(RequestHistory {
            metrics: Arc::clone(metrics),
            running: RunningAttempts::default(),
            sent: AtomicU64::default(),
            undone: AtomicU64::default(),
            met_overload: AtomicBool::default(),
            counted: Mutex::default(),
        })
    }

    /// The attempts that were sent until now.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Whether an attempt may have been done. All attempts are recorded at the time of this call: the
    /// driver records them in the caller's own task.
    pub(super) fn maybe_applied(&self) -> bool {
        self.sent() > self.undone.load(Relaxed)
    }

    /// The last answer that counts the required and the available replicas.
    pub(super) fn counted(&self) -> Option<DbError> {
        self.counted.lock().clone()
    }

    /// Whether a server was overloaded since the last call.
    pub(super) fn met_overload(&self) -> bool {
        self.met_overload.swap(false, Relaxed)
    }
}

impl Drop for RequestHistory {
    fn drop(&mut self) {
        self.running.given_up(&self.metrics);
    }
}

impl HistoryListener for RequestHistory {
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
        speculative: Option<SpeculativeId>,
        node: SocketAddr,
    ) -> AttemptId {
        self.sent.fetch_add(1, Relaxed);
        if speculative.is_some() {
            self.metrics.speculative.inc();
            debug!(%node, "speculative attempt is sent");
        }
        self.running.begin(node)
    }

    fn log_attempt_success(&self, attempt: AttemptId) {
        self.running.answered(attempt, &self.metrics);
    }

    fn log_attempt_error(
        &self,
        attempt: AttemptId,
        error: &RequestAttemptError,
        _: &RetryDecision,
    ) {
        self.running.failed(attempt, is_overload(error), &self.metrics);
        if !attempt_outcome(error).maybe_applied() {
            self.undone.fetch_add(1, Relaxed);
        }
        if is_overload(error) {
            self.met_overload.store(true, Relaxed);
        }
        if let Some(answer) = replica_counts(error) {
            *self.counted.lock() = Some(answer.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idmatch_testkit::LogCapture;

    #[test]
    fn a_speculative_attempt_is_counted_and_logged() {
        let (metrics, log) = (Arc::new(ClientMetrics::default()), LogCapture::new());
        let history = RequestHistory::new(&metrics);
        let node = SocketAddr::from(([127, 0, 0, 1], 9042));
        for speculative in [None, Some(SpeculativeId(0))] {
            history.log_attempt_start(RequestId(0), speculative, node);
        }
        assert_eq!((history.sent(), metrics.speculative.get()), (2, 1));
        assert_eq!(
            log.take("speculative"),
            ["DEBUG speculative attempt is sent node=127.0.0.1:9042"]
        );
    }
}
