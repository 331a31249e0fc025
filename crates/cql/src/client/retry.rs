//! The retry policy. A request is attempted until an attempt succeeds, its time is over, or its error is
//! permanent ([`crate::error::outcome`]).
//!
//! Its time is `timeout`; while servers are overloaded, long work has more. The backoff doubles from 20 ms
//! to 2 s, with jitter. Within one attempt the driver may ask several nodes, by its default policy and by
//! `speculation`. `history` counts these requests and records their errors. Reads, writes, batches and
//! changes of tables are repeated here. `prepare` and `connection` have loops of their own.
//!
//! Must not know the content of requests; the log has a name of each. Invariant: each attempt has waited
//! for the rate limit, or is charged to it afterwards.

use super::connection::Connection;
use super::history::RequestHistory;
use super::limiter::{RequestLimiter, RequestPermit};
use super::metrics::ClientMetrics;
use super::requirements::{RequiredReplicas, requirement_status};
use crate::error::{Failure, names_unknown_table, outcome, without_text};
use crate::settings::Settings;
use scylla::errors::ExecutionError;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{debug, warn};

/// The first backoff before a retry, and the longest.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A request that is repeated for longer than this is logged as a warning: a restart of a node or a short
/// overload is over by then.
const WARN_AFTER: Duration = Duration::from_secs(5);

/// How a request is retried, and what it requires.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPolicy {
    /// How long it is retried while servers are overloaded.
    pub(super) within: Duration,
    pub(super) needs: RequiredReplicas,
}

/// Repeats attempts of one client's requests.
pub(super) struct Retries<'c> {
    /// What the requests are about, for the log.
    pub(super) what: &'c str,
    pub(super) connection: &'c Connection,
    pub(super) limiter: &'c RequestLimiter,
    pub(super) metrics: &'c ClientMetrics,
    pub(super) settings: &'c Settings,
}

impl Retries<'_> {
    /// Attempts a request until an attempt succeeds, its time is over, or a retry does not help. The time is
    /// `retry_policy.within` while servers are overloaded, and the setting `timeout` otherwise. It starts
    /// here, after the wait for a permit.
    pub(super) async fn repeat<T, F>(
        &self,
        permit: Option<&RequestPermit<'_>>,
        attempts: &RequestHistory,
        retry_policy: RetryPolicy,
        attempt: impl Fn() -> F,
    ) -> std::result::Result<T, Failure>
    where
        F: Future<Output = std::result::Result<T, ExecutionError>>,
    {
        let start = Instant::now();
        let (mut pause, mut counted, mut agreed) = (FIRST_PAUSE, 0, false);
        let mut log = RetryLog { what: self.what, start, attempt: 0, has_warned: false };
        loop {
            let epoch = self.limiter.epoch();
            let result = attempt().await;
            // With a permit, one attempt waited for the rate limit. All others did not.
            let sent = attempts.sent() - counted;
            counted += sent;
            self.limiter.charge(sent.saturating_sub(u64::from(permit.is_some())));
            let late = matches!(result, Err(ExecutionError::RequestTimeout(_)));
            let is_overload = attempts.met_overload() || late;
            let until =
                start + if is_overload { retry_policy.within } else { self.settings.timeout };
            if is_overload {
                self.limiter.overloaded(epoch);
            } else if result.is_ok() {
                self.limiter.answered();
            }
            let error = match result {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let failure = |error| {
                let servers = requirement_status(
                    (&self.connection.session(), self.settings, self.connection.has_all_nodes()),
                    (retry_policy.needs, attempts, &error),
                );
                Failure { maybe_applied: attempts.maybe_applied(), servers, error }
            };
            // Another node may know a table that this one does not. After schema agreement, an unknown
            // table does not exist.
            let is_unknown_table = names_unknown_table(&error) && !agreed;
            let is_retryable = is_unknown_table || outcome(&error).is_retryable();
            if !is_retryable || Instant::now() + pause >= until {
                return Err(failure(error));
            }
            if is_unknown_table {
                let check =
                    async { self.connection.full_session().await.check_schema_agreement().await };
                let checked = tokio::time::timeout(self.settings.request_timeout, check).await;
                agreed = matches!(checked, Ok(Ok(Some(_))));
                if !agreed {
                    debug!(what = self.what, "nodes do not agree on the schema yet");
                }
            }
            // Jitter: clients do not retry at the same moment.
            let jittered = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
            self.metrics.retries.inc();
            log.retry(jittered, &error);
            tokio::time::sleep(jittered).await;
            if permit.is_some() {
                let ready = tokio::time::timeout_at(until, self.limiter.wait_for_rate()).await;
                if ready.is_err() {
                    return Err(failure(error));
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Logs the retries of one request.
struct RetryLog<'r> {
    what: &'r str,
    start: Instant,
    /// The attempts that failed.
    attempt: u64,
    has_warned: bool,
}

impl RetryLog<'_> {
    /// Logs a retry after this pause. The first retry after `WARN_AFTER` is logged as a warning.
    fn retry(&mut self, pause: Duration, error: &ExecutionError) {
        self.attempt += 1;
        let (what, attempt, error) = (self.what, self.attempt, without_text(error));
        let (waited, pause_ms) = (self.start.elapsed(), pause.as_millis() as u64);
        if waited > WARN_AFTER && !self.has_warned {
            self.has_warned = true;
            let waited_s = waited.as_secs();
            warn!(what, attempt, pause_ms, waited_s, %error, "request is still repeated");
        } else {
            debug!(what, attempt, pause_ms, %error, "request is repeated");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idmatch_testkit::LogCapture;

    #[test]
    fn a_request_that_is_repeated_for_long_is_one_warning() {
        let log = LogCapture::new();
        let (start, pause) = (Instant::now() - WARN_AFTER * 2, Duration::from_millis(20));
        let mut late = RetryLog { what: "a lookup", start, attempt: 0, has_warned: false };
        let mut early = RetryLog { start: Instant::now(), ..late };
        for _ in 0..2 {
            late.retry(pause, &ExecutionError::EmptyPlan);
            early.retry(pause, &ExecutionError::EmptyPlan);
        }
        let lines = log.take("repeated");
        let begins = [
            "WARN request is still repeated what=a lookup attempt=1 pause_ms=20 waited_s=10 error=",
            "DEBUG request is repeated what=a lookup attempt=1 pause_ms=20 error=",
            "DEBUG request is repeated what=a lookup attempt=2 pause_ms=20 error=",
            "DEBUG request is repeated what=a lookup attempt=2 pause_ms=20 error=",
        ];
        assert_eq!(lines.len(), begins.len(), "{lines:?}");
        for (line, begin) in lines.iter().zip(begins) {
            assert!(line.starts_with(begin), "{line}");
        }
    }
}
