//! Speculative execution: asks another node when the first takes long to answer.
//!
//! A node that does not respond must cost little. Merely slow servers must not get every request
//! twice, which would make them slower. So the delay follows the current latency of requests of the
//! same kind. Must not know what is asked.
//!
//! Invariants:
//! - the delay stays short while fewer than half of the answers are late: one node of three that does
//!   not respond makes fewer than half late;
//! - another node is asked before the request times out.

use crate::settings::Settings;
use scylla::policies::speculative_execution::{Context, SpeculativeExecutionPolicy};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

/// The least delay of requests for many rows, which take longer in themselves.
pub(super) const BULK: Duration = Duration::from_millis(250);
/// The least delay of conditional writes: two coordinators contend with each other.
pub(super) const CONDITIONAL: Duration = Duration::from_secs(1);
/// Nodes that are asked after the first.
const EXTRA_NODES: usize = 2;
/// An answer that takes this many times the median is late.
const LATE_FACTOR: u32 = 3;
/// An answer moves the median by the median divided by this.
const STEP_DIVISOR: u64 = 16;
/// The median expires after this long without an answer, or after 4 medians if that is longer.
const EXPIRY: Duration = Duration::from_secs(1);
const EXPIRY_MEDIANS: u64 = 4;
/// The longest delay is the timeout per attempt divided by this.
const MAX_DELAY_DIVISOR: u32 = 2;

/// The latency of one kind of request.
#[derive(Debug)]
pub(super) struct AdaptiveSpeculation {
    min_delay: Duration,
    max_delay: Duration,
    /// About the median latency of the last answers in nanoseconds: a slower answer raises it, any
    /// other lowers it.
    median: AtomicU64,
    /// The time of the last answer, in nanoseconds since `start`.
    last_answer: AtomicU64,
    start: Instant,
}

impl AdaptiveSpeculation {
    /// The delay is at least `min_delay` and `speculate_after`. If `speculate_after` is off, this has
    /// no effect: no other node is asked at all.
    pub(super) fn new(settings: &Settings, min_delay: Duration) -> AdaptiveSpeculation {
        let min_delay = settings.speculate_after.unwrap_or_default().max(min_delay);
        AdaptiveSpeculation::between(
            min_delay,
            min_delay.max(settings.request_timeout / MAX_DELAY_DIVISOR),
        )
    }

    fn between(min_delay: Duration, max_delay: Duration) -> AdaptiveSpeculation {
        let (median, last_answer) = (AtomicU64::new(min_median(min_delay)), AtomicU64::default());
        AdaptiveSpeculation { min_delay, max_delay, median, last_answer, start: Instant::now() }
    }

    /// Counts an answer. Two that are counted at the same moment may count as one.
    pub(super) fn answered(&self, after: Duration) {
        self.note(after, self.start.elapsed());
    }

    fn note(&self, after: Duration, now: Duration) {
        let median = self.median(now);
        let step = median / STEP_DIVISOR + 1;
        let moved = match nanos(after) > median {
            true => median.saturating_add(step),
            false => median.saturating_sub(step).max(min_median(self.min_delay)),
        };
        self.median.store(moved, Relaxed);
        self.last_answer.store(nanos(now), Relaxed);
    }

    fn median(&self, now: Duration) -> u64 {
        let median = self.median.load(Relaxed);
        let expiry = nanos(EXPIRY).max(median.saturating_mul(EXPIRY_MEDIANS));
        match nanos(now).saturating_sub(self.last_answer.load(Relaxed)) > expiry {
            true => min_median(self.min_delay),
            false => median,
        }
    }

    /// The speculative delay.
    fn speculative_delay(&self, now: Duration) -> Duration {
        Duration::from_nanos(self.median(now))
            .saturating_mul(LATE_FACTOR)
            .clamp(self.min_delay, self.max_delay)
    }
}

impl SpeculativeExecutionPolicy for AdaptiveSpeculation {
    fn max_retry_count(&self, _: &Context) -> usize {
        EXTRA_NODES
    }

    fn retry_interval(&self, _: &Context) -> Duration {
        self.speculative_delay(self.start.elapsed())
    }
}

/// The least median: a lower one makes no difference.
fn min_median(min_delay: Duration) -> u64 {
    nanos(min_delay / LATE_FACTOR)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN_DELAY: Duration = Duration::from_millis(50);
    const MAX_DELAY: Duration = Duration::from_secs(3);

    /// The delay after answers that took these milliseconds, in turn.
    fn after(speculation: &AdaptiveSpeculation, answers: usize, millis: &[u64]) -> Duration {
        let each = millis.iter().cycle().take(answers);
        each.for_each(|&took| speculation.note(Duration::from_millis(took), Duration::ZERO));
        speculation.speculative_delay(Duration::ZERO)
    }

    #[test]
    fn quick_answers_keep_the_least_delay() {
        let speculation = AdaptiveSpeculation::between(MIN_DELAY, MAX_DELAY);
        assert_eq!(speculation.speculative_delay(Duration::ZERO), MIN_DELAY);
        assert_eq!(after(&speculation, 1_000, &[1, 2, 0, 15]), MIN_DELAY);
    }

    #[test]
    fn slow_servers_raise_the_delay() {
        let speculation = AdaptiveSpeculation::between(MIN_DELAY, MAX_DELAY);
        let slow = after(&speculation, 100, &[300]);
        assert!(slow >= Duration::from_millis(800) && slow <= Duration::from_secs(1), "{slow:?}");
        // An old median does not count.
        assert_eq!(speculation.speculative_delay(2 * EXPIRY), MIN_DELAY);
        // The delay is short again when they are quick again.
        assert_eq!(after(&speculation, 100, &[1]), MIN_DELAY);
        // The delay has an upper bound.
        assert_eq!(after(&speculation, 1_000, &[20_000]), MAX_DELAY);
    }

    #[test]
    fn the_median_of_slow_servers_expires_later() {
        let speculation = AdaptiveSpeculation::between(MIN_DELAY, MAX_DELAY);
        after(&speculation, 100, &[600]);
        let next = 2 * EXPIRY;
        assert!(speculation.speculative_delay(next) > Duration::from_secs(1));
        assert_eq!(speculation.speculative_delay(2 * next), MIN_DELAY);
    }

    #[test]
    fn one_unresponsive_node_of_three_keeps_the_delay_short() {
        let speculation = AdaptiveSpeculation::between(MIN_DELAY, MAX_DELAY);
        assert_eq!(after(&speculation, 3_000, &[2, 60, 3]), MIN_DELAY);
        assert_eq!(after(&speculation, 3_000, &[2, 10_000, 3]), MIN_DELAY);
        // The other nodes wait for its rows until they ask a third replica.
        let both = after(&speculation, 3_000, &[2, 42, 92, 1, 41, 130]);
        assert!(both <= Duration::from_millis(150), "{both:?}");
    }
}
