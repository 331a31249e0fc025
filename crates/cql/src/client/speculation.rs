//! When another node is asked as well, because the first takes long to answer.
//!
//! A node that hangs is to cost little; servers that are merely slow must not be sent everything twice,
//! which would make them slower. What is long is therefore a matter of what requests of the same kind
//! take at present. Must not know what is asked.
//!
//! Invariant: fewer than half of the answers may be late, as those are for which one node of three that
//! hangs was asked, and another node is still asked soon. It is asked before the request is given up.

use crate::settings::Settings;
use scylla::policies::speculative_execution::{Context, SpeculativeExecutionPolicy};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Requests of many rows take longer in themselves.
pub(super) const BULK: Duration = Duration::from_millis(250);
/// Two nodes that write under a condition get in each other's way.
pub(super) const CONDITIONAL: Duration = Duration::from_secs(1);
/// So many more nodes are asked.
const MORE: usize = 2;
/// An answer that takes so many times as long as the median is late.
const LATE: u32 = 3;
/// An answer moves the median by this part of it.
const STEP: u64 = 16;
/// What was heard so long ago tells nothing, or so many medians ago if that is longer.
const STALE: Duration = Duration::from_secs(1);
const STALE_TIMES: u64 = 4;
/// Another node is asked after this part of what an answer is waited for, or sooner.
const MOST: u32 = 2;

/// What answers to one kind of request take.
#[derive(Debug)]
pub(super) struct AdaptiveSpeculation {
    least: Duration,
    most: Duration,
    /// About the median of the last answers in nanoseconds: each that took longer raises it, each
    /// other one lowers it.
    usual: AtomicU64,
    /// When the last answer came, in nanoseconds since `start`.
    heard: AtomicU64,
    start: Instant,
}

impl AdaptiveSpeculation {
    /// No other node is asked before `least` and `speculate_after` are over. Without a meaning where
    /// that is off: then no other node is asked at all.
    pub(super) fn new(settings: &Settings, least: Duration) -> AdaptiveSpeculation {
        let least = settings.speculate_after.unwrap_or_default().max(least);
        AdaptiveSpeculation::between(least, least.max(settings.request_timeout / MOST))
    }

    fn between(least: Duration, most: Duration) -> AdaptiveSpeculation {
        let (usual, heard) = (AtomicU64::new(lowest(least)), AtomicU64::default());
        AdaptiveSpeculation { least, most, usual, heard, start: Instant::now() }
    }

    /// Notes an answer. One that another thread notes at the same moment may be lost.
    pub(super) fn answered(&self, after: Duration) {
        self.note(after, self.start.elapsed());
    }

    fn note(&self, after: Duration, now: Duration) {
        let usual = self.usual(now);
        let step = usual / STEP + 1;
        let moved = match nanos(after) > usual {
            true => usual.saturating_add(step),
            false => usual.saturating_sub(step).max(lowest(self.least)),
        };
        self.usual.store(moved, Relaxed);
        self.heard.store(nanos(now), Relaxed);
    }

    fn usual(&self, now: Duration) -> u64 {
        let usual = self.usual.load(Relaxed);
        let stale = nanos(STALE).max(usual.saturating_mul(STALE_TIMES));
        match nanos(now).saturating_sub(self.heard.load(Relaxed)) > stale {
            true => lowest(self.least),
            false => usual,
        }
    }

    /// After how long without an answer another node is asked.
    fn over_after(&self, now: Duration) -> Duration {
        Duration::from_nanos(self.usual(now)).saturating_mul(LATE).clamp(self.least, self.most)
    }
}

impl SpeculativeExecutionPolicy for AdaptiveSpeculation {
    fn max_retry_count(&self, _: &Context) -> usize {
        MORE
    }

    fn retry_interval(&self, _: &Context) -> Duration {
        self.over_after(self.start.elapsed())
    }
}

/// A median that is lower makes no difference.
fn lowest(least: Duration) -> u64 {
    nanos(least / LATE)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(50);
    const MOST_EVER: Duration = Duration::from_secs(3);

    /// What is waited after answers that took as many milliseconds each, in turn.
    fn after(speculation: &AdaptiveSpeculation, answers: usize, millis: &[u64]) -> Duration {
        let each = millis.iter().cycle().take(answers);
        each.for_each(|&took| speculation.note(Duration::from_millis(took), Duration::ZERO));
        speculation.over_after(Duration::ZERO)
    }

    #[test]
    fn quick_answers_leave_it_at_the_least() {
        let speculation = AdaptiveSpeculation::between(LEAST, MOST_EVER);
        assert_eq!(speculation.over_after(Duration::ZERO), LEAST);
        assert_eq!(after(&speculation, 1_000, &[1, 2, 0, 15]), LEAST);
    }

    #[test]
    fn slow_servers_are_waited_for() {
        let speculation = AdaptiveSpeculation::between(LEAST, MOST_EVER);
        let slow = after(&speculation, 100, &[300]);
        assert!(slow >= Duration::from_millis(800) && slow <= Duration::from_secs(1), "{slow:?}");
        // Not because of what they were like before.
        assert_eq!(speculation.over_after(2 * STALE), LEAST);
        // And no longer when they are quick again.
        assert_eq!(after(&speculation, 100, &[1]), LEAST);
        // Not for longer than answers are waited for at all.
        assert_eq!(after(&speculation, 1_000, &[20_000]), MOST_EVER);
    }

    #[test]
    fn what_slow_servers_said_last_counts_for_longer() {
        let speculation = AdaptiveSpeculation::between(LEAST, MOST_EVER);
        after(&speculation, 100, &[600]);
        let next = 2 * STALE;
        assert!(speculation.over_after(next) > Duration::from_secs(1));
        assert_eq!(speculation.over_after(2 * next), LEAST);
    }

    #[test]
    fn one_node_of_three_that_hangs_is_not_waited_for() {
        let speculation = AdaptiveSpeculation::between(LEAST, MOST_EVER);
        assert_eq!(after(&speculation, 3_000, &[2, 60, 3]), LEAST);
        assert_eq!(after(&speculation, 3_000, &[2, 10_000, 3]), LEAST);
        // The others wait for its rows until the servers ask a third.
        let both = after(&speculation, 3_000, &[2, 42, 92, 1, 41, 130]);
        assert!(both <= Duration::from_millis(150), "{both:?}");
    }
}
