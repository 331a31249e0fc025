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
pub(super) struct Flow {
    turns: Semaphore,
    level: Mutex<Level>,
    ceiling: Option<Ceiling>,
}

/// How many turns there are.
struct Level {
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
pub(super) struct Moment(u64);

/// The right to have one request under way.
pub(super) struct Turn<'f> {
    flow: &'f Flow,
    permit: Option<SemaphorePermit<'f>>,
}

impl Flow {
    pub(super) fn new(in_flight: usize, per_second: Option<NonZeroU32>) -> Flow {
        let level = Level { most: in_flight, limit: in_flight, excess: 0, answers: 0, cuts: 0 };
        let ceiling = per_second.map(Ceiling::new);
        Flow { turns: Semaphore::new(in_flight), level: Mutex::new(level), ceiling }
    }

    /// Waits for a turn, and for what the ceiling allows.
    pub(super) async fn turn(&self) -> Turn<'_> {
        // It is never closed.
        let permit = self.turns.acquire().await.ok();
        let turn = Turn { flow: self, permit };
        self.below_ceiling().await;
        turn
    }

    /// Waits for what the ceiling allows, to send a request again.
    pub(super) async fn below_ceiling(&self) {
        if let Some(ceiling) = &self.ceiling {
            ceiling.wait().await;
        }
    }

    /// Notes requests that were sent without waiting for the ceiling.
    pub(super) fn owe(&self, requests: u64) {
        if let Some(ceiling) = &self.ceiling {
            ceiling.debt.fetch_add(requests, Relaxed);
        }
    }

    pub(super) fn moment(&self) -> Moment {
        Moment(self.level().cuts)
    }

    /// Notes a request that was answered.
    pub(super) fn answered(&self) {
        let mut level = self.level();
        if level.limit == level.most {
            return;
        }
        level.answers += 1;
        if level.answers < level.limit {
            return;
        }
        level.answers = 0;
        level.limit += 1;
        if level.excess > 0 {
            level.excess -= 1;
        } else {
            self.turns.add_permits(1);
        }
    }

    /// Notes that servers had too much to do to answer a request.
    pub(super) fn overloaded(&self, moment: Moment) {
        let mut level = self.level();
        if moment.0 != level.cuts {
            return;
        }
        level.cuts += 1;
        level.answers = 0;
        let lower = (level.limit / 2).max(1);
        let fewer = level.limit - lower;
        level.limit = lower;
        level.excess += fewer - self.turns.forget_permits(fewer);
    }

    fn level(&self) -> MutexGuard<'_, Level> {
        self.level.lock()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut level = self.flow.level();
        if level.excess > 0
            && let Some(permit) = self.permit.take()
        {
            level.excess -= 1;
            permit.forget();
        }
    }
}

/// So many requests in a second.
struct Ceiling {
    limiter: DefaultDirectRateLimiter,
    /// Requests that were sent and not counted yet.
    debt: AtomicU64,
    /// Held by who is next: the limiter itself knows no order, and would wake all.
    next: tokio::sync::Mutex<()>,
}

impl Ceiling {
    fn new(per_second: NonZeroU32) -> Ceiling {
        let burst = NonZeroU32::new(per_second.get() / BURST).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(per_second).allow_burst(burst);
        Ceiling {
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
    fn free(flow: &Flow) -> usize {
        let mut turns = Vec::new();
        while let Some(turn) = flow.turn().now_or_never() {
            turns.push(turn);
        }
        turns.len()
    }

    #[test]
    fn overload_halves_the_turns_and_answers_bring_them_back() {
        let flow = Flow::new(8, None);
        assert_eq!(free(&flow), 8);
        for left in [4, 2, 1, 1, 1] {
            flow.overloaded(flow.moment());
            assert_eq!(free(&flow), left);
        }
        for (answers, turns) in [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (99, 8)] {
            assert_eq!(free(&flow), turns - usize::from(answers < 99));
            (0..answers).for_each(|_| flow.answered());
            assert_eq!(free(&flow), turns);
        }
    }

    #[test]
    fn what_was_sent_before_a_cut_cuts_once() {
        let flow = Flow::new(100, None);
        let moments = [flow.moment(), flow.moment(), flow.moment()];
        moments.into_iter().for_each(|moment| flow.overloaded(moment));
        assert_eq!(free(&flow), 50);
    }

    #[test]
    fn turns_that_others_have_end_with_their_requests() {
        let flow = Flow::new(4, None);
        let turn = || flow.turn().now_or_never().unwrap();
        let mut taken = vec![turn(), turn(), turn()];
        flow.overloaded(flow.moment());
        assert_eq!(free(&flow), 0);
        taken.pop();
        assert_eq!(free(&flow), 0);
        taken.pop();
        assert_eq!(free(&flow), 1);
        taken.pop();
        assert_eq!(free(&flow), 2);
        // One that is back before the excess has ended takes from that.
        let mut taken = vec![turn(), turn()];
        flow.overloaded(flow.moment());
        flow.answered();
        taken.pop();
        assert_eq!(free(&flow), 1);
        taken.pop();
        assert_eq!(free(&flow), 2);
    }

    #[test]
    fn a_ceiling_counts_what_was_sent_without_a_turn() {
        let flow = Flow::new(1_000, NonZeroU32::new(10));
        // A burst of one.
        assert!(flow.turn().now_or_never().is_some());
        assert!(flow.turn().now_or_never().is_none());
        let flow = Flow::new(1_000, NonZeroU32::new(100));
        flow.owe(4);
        assert_eq!(free(&flow), 6);
    }
}
