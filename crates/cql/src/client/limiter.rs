//! Limits the requests to the servers: the number in flight (permits), and the number per second.
//!
//! A request waits for its permit, first come, first served; the limiter refuses none. A permit
//! covers the request with its retries and its speculative copies. Must not know what a request
//! asks.
//!
//! The concurrency limit adapts to the servers (AIMD, as in TCP). An overload halves it; it grows by
//! one after as many answers as there are permits. `retry` reports overloads and answers.
//!
//! Invariants:
//! - there is at least one permit, and never more than `in_flight`;
//! - requests that did not wait for the rate limit are charged to later ones, so that over time it
//!   holds for all.

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use idmatch_store::locks::{Mutex, MutexGuard};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::{debug, info, warn};

/// The burst is the rate limit divided by this: timers are too coarse to schedule each of many
/// thousands of requests.
const BURST_DIVISOR: u32 = 10;

/// Gives permits.
pub(super) struct RequestLimiter {
    permits: Semaphore,
    limit: Mutex<AdaptiveLimit>,
    rate_limit: Option<RateLimit>,
}

/// The concurrency limit.
struct AdaptiveLimit {
    most: usize,
    /// The current limit.
    limit: usize,
    /// The lowest limit since the last time that it was full. Each new one is logged as a warning.
    lowest: usize,
    /// Permits to forget when their requests end: requests hold them, but the limit was lowered.
    excess: usize,
    /// Answers since the last change of the limit.
    answers: usize,
    /// How often the limit was lowered.
    cuts: u64,
}

/// The number of cuts of the limit when a request was sent. All requests sent before a cut report the
/// same overload, and lower the limit once.
#[derive(Debug, Clone, Copy)]
pub(super) struct LimitEpoch(u64);

/// The right to have one request in flight.
pub(super) struct RequestPermit<'f> {
    limiter: &'f RequestLimiter,
    permit: Option<SemaphorePermit<'f>>,
}

impl RequestLimiter {
    pub(super) fn new(in_flight: usize, per_second: Option<NonZeroU32>) -> RequestLimiter {
        let limit = AdaptiveLimit {
            most: in_flight,
            limit: in_flight,
            lowest: in_flight,
            excess: 0,
            answers: 0,
            cuts: 0,
        };
        let rate_limit = per_second.map(RateLimit::new);
        RequestLimiter { permits: Semaphore::new(in_flight), limit: Mutex::new(limit), rate_limit }
    }

    /// Waits for a permit, and for the rate limit.
    pub(super) async fn permit(&self) -> RequestPermit<'_> {
        // The semaphore is never closed.
        let permit = self.permits.acquire().await.ok();
        let permit = RequestPermit { limiter: self, permit };
        self.wait_for_rate().await;
        permit
    }

    /// Waits for the rate limit, to retry a request.
    pub(super) async fn wait_for_rate(&self) {
        if let Some(rate_limit) = &self.rate_limit {
            rate_limit.wait().await;
        }
    }

    /// Counts requests that did not wait for the rate limit.
    pub(super) fn charge(&self, requests: u64) {
        if let Some(rate_limit) = &self.rate_limit {
            rate_limit.debt.fetch_add(requests, Relaxed);
        }
    }

    /// The concurrency limit, and the permits in use.
    pub(super) fn in_flight(&self) -> (usize, usize) {
        let limit = self.limit();
        let given = limit.limit + limit.excess;
        (limit.limit, given.saturating_sub(self.permits.available_permits()))
    }

    pub(super) fn epoch(&self) -> LimitEpoch {
        LimitEpoch(self.limit().cuts)
    }

    /// Counts an answered request.
    pub(super) fn answered(&self) {
        let mut limit = self.limit();
        if limit.limit == limit.most {
            return;
        }
        limit.answers += 1;
        if limit.answers < limit.limit {
            return;
        }
        limit.answers = 0;
        limit.limit += 1;
        if limit.excess > 0 {
            limit.excess -= 1;
        } else {
            self.permits.add_permits(1);
        }
        if limit.limit == limit.most {
            let most = limit.most;
            limit.lowest = most;
            drop(limit);
            info!(limit = most, "servers are no longer overloaded: full limit again");
        }
    }

    /// Halves the limit, once per epoch: servers were too overloaded to answer a request.
    pub(super) fn overloaded(&self, epoch: LimitEpoch) {
        let mut limit = self.limit();
        if epoch.0 != limit.cuts {
            return;
        }
        limit.cuts += 1;
        limit.answers = 0;
        let lower = (limit.limit / 2).max(1);
        let fewer = limit.limit - lower;
        limit.limit = lower;
        limit.excess += fewer - self.permits.forget_permits(fewer);
        let is_lowest = lower < limit.lowest;
        limit.lowest = limit.lowest.min(lower);
        drop(limit);
        if is_lowest {
            warn!(limit = lower, "servers are overloaded: fewer requests in flight");
        } else {
            debug!(limit = lower, "servers are still overloaded: fewer requests in flight");
        }
    }

    fn limit(&self) -> MutexGuard<'_, AdaptiveLimit> {
        self.limit.lock()
    }
}

impl Drop for RequestPermit<'_> {
    fn drop(&mut self) {
        let mut limit = self.limiter.limit();
        if limit.excess > 0
            && let Some(permit) = self.permit.take()
        {
            limit.excess -= 1;
            permit.forget();
        }
    }
}

/// The limit of requests per second.
struct RateLimit {
    limiter: DefaultDirectRateLimiter,
    /// Requests that were sent and are not counted yet.
    debt: AtomicU64,
    /// Held by the request that waits for the rate limit. The rate limiter keeps no order, and would wake all
    /// waiting requests.
    next: tokio::sync::Mutex<()>,
}

impl RateLimit {
    fn new(per_second: NonZeroU32) -> RateLimit {
        let burst = NonZeroU32::new(per_second.get() / BURST_DIVISOR).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(per_second).allow_burst(burst);
        RateLimit {
            limiter: RateLimiter::direct(quota),
            debt: AtomicU64::default(),
            next: tokio::sync::Mutex::default(),
        }
    }

    async fn wait(&self) {
        let _next = self.next.lock().await;
        loop {
            self.limiter.until_ready().await;
            let paid = self.debt.fetch_update(Relaxed, Relaxed, |debt| debt.checked_sub(1));
            if paid.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use idmatch_testkit::LogCapture;

    /// The permits that are free without waiting.
    fn free(limiter: &RequestLimiter) -> usize {
        let mut permits = Vec::new();
        while let Some(permit) = limiter.permit().now_or_never() {
            permits.push(permit);
        }
        permits.len()
    }

    #[test]
    fn overload_halves_the_limit_and_answers_restore_it() {
        let (limiter, log) = (RequestLimiter::new(8, None), LogCapture::new());
        assert_eq!(free(&limiter), 8);
        for left in [4, 2, 1, 1, 1] {
            limiter.overloaded(limiter.epoch());
            assert_eq!(free(&limiter), left);
        }
        for (answers, permits) in [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (99, 8)]
        {
            assert_eq!(free(&limiter), permits - usize::from(answers < 99));
            (0..answers).for_each(|_| limiter.answered());
            assert_eq!(free(&limiter), permits);
        }
        // Each lowest limit is a warning.
        let [lower, still] = [
            "WARN servers are overloaded: fewer requests in flight",
            "DEBUG servers are still overloaded: fewer requests in flight",
        ];
        let expected = [
            format!("{lower} limit=4"),
            format!("{lower} limit=2"),
            format!("{lower} limit=1"),
            format!("{still} limit=1"),
            format!("{still} limit=1"),
            "INFO servers are no longer overloaded: full limit again limit=8".to_owned(),
        ];
        assert_eq!(log.take("overloaded"), expected);
    }

    #[test]
    fn requests_sent_before_a_cut_cut_once() {
        let limiter = RequestLimiter::new(100, None);
        let epochs = [limiter.epoch(), limiter.epoch(), limiter.epoch()];
        epochs.into_iter().for_each(|epoch| limiter.overloaded(epoch));
        assert_eq!(free(&limiter), 50);
    }

    #[test]
    fn held_permits_end_with_their_requests() {
        let limiter = RequestLimiter::new(4, None);
        let permit = || limiter.permit().now_or_never().unwrap();
        let mut taken = vec![permit(), permit(), permit()];
        limiter.overloaded(limiter.epoch());
        assert_eq!(free(&limiter), 0);
        taken.pop();
        assert_eq!(free(&limiter), 0);
        taken.pop();
        assert_eq!(free(&limiter), 1);
        taken.pop();
        assert_eq!(free(&limiter), 2);
        // A raise before the excess has ended reduces the excess.
        let mut taken = vec![permit(), permit()];
        limiter.overloaded(limiter.epoch());
        limiter.answered();
        taken.pop();
        assert_eq!(free(&limiter), 1);
        taken.pop();
        assert_eq!(free(&limiter), 2);
    }

    #[test]
    fn a_rate_limit_counts_requests_sent_without_a_permit() {
        let limiter = RequestLimiter::new(1_000, NonZeroU32::new(10));
        // A burst of one.
        assert!(limiter.permit().now_or_never().is_some());
        assert!(limiter.permit().now_or_never().is_none());
        let limiter = RequestLimiter::new(1_000, NonZeroU32::new(100));
        limiter.charge(4);
        assert_eq!(free(&limiter), 6);
    }
}
