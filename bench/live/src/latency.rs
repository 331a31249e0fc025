//! How long calls took.

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::time::Duration;

/// Counts durations from a nanosecond to an hour, each to three digits.
pub(crate) struct Latency(Histogram<u64>);

impl Latency {
    pub(crate) fn new() -> Latency {
        // The bounds are valid.
        #[allow(clippy::unwrap_used)]
        Latency(Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap())
    }

    pub(crate) fn add(&mut self, taken: Duration) {
        self.0.saturating_record(taken.as_nanos() as u64);
    }

    pub(crate) fn merge(&mut self, other: &Latency) {
        // Both have the same bounds.
        self.0.add(&other.0).ok();
    }

    pub(crate) fn json(&self) -> Value {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e9;
        json!({
            "calls": self.0.len(), "p50": at(0.5), "p99": at(0.99), "p99_9": at(0.999),
            "max": self.0.max() as f64 / 1e9,
        })
    }
}

/// The middle one, or the mean of the two.
pub(crate) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => f64::NAN,
        (len, middle) if len % 2 == 1 => sorted[middle],
        (_, middle) => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}
