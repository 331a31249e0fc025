//! How much is asked of the servers: so many requests at once, and so many in a second.
//!
//! Whoever has a request waits for its turn, first come, first served; nothing is refused for lack of
//! it. Must not know what is asked.
//!
//! How many there are at once follows what servers say (AIMD, as TCP does it): half as many when they
//! are overloaded, one more after as many answers as there are turns.
//!
//! Invariants:
//! - there are never more turns than `in_flight`, and always one;
//! - requests that were sent without a turn are taken off the ceiling of later ones, so that over time
//!   it holds for all.

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::{Mutex, MutexGuard};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::{Semaphore, SemaphorePermit};

/// What a ceiling allows at once, as a part of what it allows in a second: timers are too coarse to
/// tell each request of many thousands apart.
const BURST: u32 = 10;

/// Gives turns.
pub(super) struct RequestLimiter {
    permits: Semaphore,
    limit: Mutex<AdaptiveLimit>,
    rate_limit: Option<RateLimit>,
}

/// How many turns there are.
struct AdaptiveLimit {
    most: usize,
    /// So many at present.
    limit: usize,
    /// Turns that end with their requests: others have them, but the limit was lowered.
    excess: usize,
    /// Answers since the limit was changed.
    answers: usize,
    /// How often the limit was lowered.
    cuts: u64,
}

/// The moment at which a request was sent, as counted by what was lowered until then. All that was sent
/// before a cut tells of the same overload, and lowers the limit once.
#[derive(Debug, Clone, Copy)]
pub(super) struct LimitEpoch(u64);

/// The right to have one request under way.
pub(super) struct Permit<'f> {
    limiter: &'f RequestLimiter,
    permit: Option<SemaphorePermit<'f>>,
}

impl RequestLimiter {
    pub(super) fn new(in_flight: usize, per_second: Option<NonZeroU32>) -> RequestLimiter {
        let limit =
            AdaptiveLimit { most: in_flight, limit: in_flight, excess: 0, answers: 0, cuts: 0 };
        let rate_limit = per_second.map(RateLimit::new);
        RequestLimiter { permits: Semaphore::new(in_flight), limit: Mutex::new(limit), rate_limit }
    }

    /// Waits for a turn, and for what the ceiling allows.
    pub(super) async fn permit(&self) -> Permit<'_> {
        // It is never closed.
        let permit = self.permits.acquire().await.ok();
        let permit = Permit { limiter: self, permit };
        self.below_ceiling().await;
        permit
    }

    /// Waits for what the ceiling allows, to send a request again.
    pub(super) async fn below_ceiling(&self) {
        if let Some(rate_limit) = &self.rate_limit {
            rate_limit.wait().await;
        }
    }

    /// Notes requests that were sent without waiting for the ceiling.
    pub(super) fn charge(&self, requests: u64) {
        if let Some(rate_limit) = &self.rate_limit {
            rate_limit.debt.fetch_add(requests, Relaxed);
        }
    }

    pub(super) fn epoch(&self) -> LimitEpoch {
        LimitEpoch(self.limit().cuts)
    }

    /// Notes a request that was answered.
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
    }

    /// Notes that servers had too much to do to answer a request.
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
    }

    fn limit(&self) -> MutexGuard<'_, AdaptiveLimit> {
        self.limit.lock()
    }
}

impl Drop for Permit<'_> {
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

/// So many requests in a second.
struct RateLimit {
    limiter: DefaultDirectRateLimiter,
    /// Requests that were sent and not counted yet.
    debt: AtomicU64,
    /// Held by who is next: the limiter itself knows no order, and would wake all.
    next: tokio::sync::Mutex<()>,
}

impl RateLimit {
    fn new(per_second: NonZeroU32) -> RateLimit {
        let burst = NonZeroU32::new(per_second.get() / BURST).unwrap_or(NonZeroU32::MIN);
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

    /// Turns that can be had without waiting.
    fn free(limiter: &RequestLimiter) -> usize {
        let mut permits = Vec::new();
        while let Some(permit) = limiter.permit().now_or_never() {
            permits.push(permit);
        }
        permits.len()
    }

    #[test]
    fn overload_halves_the_turns_and_answers_bring_them_back() {
        let limiter = RequestLimiter::new(8, None);
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
    }

    #[test]
    fn what_was_sent_before_a_cut_cuts_once() {
        let limiter = RequestLimiter::new(100, None);
        let moments = [limiter.epoch(), limiter.epoch(), limiter.epoch()];
        moments.into_iter().for_each(|epoch| limiter.overloaded(epoch));
        assert_eq!(free(&limiter), 50);
    }

    #[test]
    fn turns_that_others_have_end_with_their_requests() {
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
        // One that is back before the excess has ended takes from that.
        let mut taken = vec![permit(), permit()];
        limiter.overloaded(limiter.epoch());
        limiter.answered();
        taken.pop();
        assert_eq!(free(&limiter), 1);
        taken.pop();
        assert_eq!(free(&limiter), 2);
    }

    #[test]
    fn a_ceiling_counts_what_was_sent_without_a_turn() {
        let limiter = RequestLimiter::new(1_000, NonZeroU32::new(10));
        // A burst of one.
        assert!(limiter.permit().now_or_never().is_some());
        assert!(limiter.permit().now_or_never().is_none());
        let limiter = RequestLimiter::new(1_000, NonZeroU32::new(100));
        limiter.charge(4);
        assert_eq!(free(&limiter), 6);
    }
}
