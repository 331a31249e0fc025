//! Figures of this process about one store, for Prometheus.
//!
//! [`Calls`] measures calls by their kind, and a backend adds figures of its own ([`crate::Store::metrics`]).
//! Labels have fixed sets of values. Must not know a table, an identifier, a path or any backend.

use crate::clock::instant;
use crate::{ErrorKind, Result};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::{self, Write};
use std::time::Instant;

/// Upper bounds in seconds: from a lookup in memory to the load of a large table.
const DURATION_BUCKETS: [f64; 15] =
    [2e-6, 5e-6, 2e-5, 1e-4, 5e-4, 2e-3, 0.01, 0.05, 0.2, 1.0, 5.0, 20.0, 60.0, 300.0, 1800.0];

/// A histogram of durations in seconds.
pub fn durations() -> Histogram {
    Histogram::new(DURATION_BUCKETS)
}

/// The kinds of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// The answers of identifiers.
    Lookup,
    /// The dates of a pair.
    LastSeen,
    /// Matches of a population, until all are counted.
    Match,
    /// Rows of a table or of a match, until all are written.
    Write,
    /// Observations that are visible at once.
    Upsert,
    /// Rows of a source, until they are staged.
    Stage,
    /// Staged rows become visible.
    Commit,
    /// Erasures.
    Erase,
    /// Compactions for which the caller waits.
    Compact,
    /// Checks of a table.
    Verify,
    /// Repairs of a table.
    Repair,
    /// Backups.
    Backup,
}

impl CallKind {
    /// All kinds, in their order.
    pub const ALL: [CallKind; 12] = [
        CallKind::Lookup,
        CallKind::LastSeen,
        CallKind::Match,
        CallKind::Write,
        CallKind::Upsert,
        CallKind::Stage,
        CallKind::Commit,
        CallKind::Erase,
        CallKind::Compact,
        CallKind::Verify,
        CallKind::Repair,
        CallKind::Backup,
    ];

    fn name(self) -> &'static str {
        match self {
            CallKind::Lookup => "lookup",
            CallKind::LastSeen => "last_seen",
            CallKind::Match => "match",
            CallKind::Write => "write",
            CallKind::Upsert => "upsert",
            CallKind::Stage => "stage",
            CallKind::Commit => "commit",
            CallKind::Erase => "erase",
            CallKind::Compact => "compact",
            CallKind::Verify => "verify",
            CallKind::Repair => "repair",
            CallKind::Backup => "backup",
        }
    }
}

impl EncodeLabelValue for CallKind {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCall {
    call: CallKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfError {
    call: CallKind,
    error: &'static str,
}

/// The rate, errors and duration of calls, by kind. A call costs two readings of the clock and a short lock.
pub struct Calls {
    durations: Family<OfCall, Histogram, fn() -> Histogram>,
    errors: Family<OfError, Counter>,
    in_flight: Family<OfCall, Gauge>,
    snapshots: Gauge,
    sessions: Gauge,
    /// The metrics of each kind, in the order of the kinds, so that calls need not search them.
    by_kind: Vec<(Histogram, Gauge)>,
}

impl Default for Calls {
    fn default() -> Calls {
        let durations: Family<OfCall, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(durations);
        let in_flight: Family<OfCall, Gauge> = Family::default();
        let of_kind = |call| {
            let labels = OfCall { call };
            (durations.get_or_create_owned(&labels), in_flight.get_or_create_owned(&labels))
        };
        let by_kind = CallKind::ALL.into_iter().map(of_kind).collect();
        // Each counter begins at 0. A counter that began at its first error would show no increase.
        let errors: Family<OfError, Counter> = Family::default();
        for call in CallKind::ALL {
            for error in ErrorKind::ALL {
                drop(errors.get_or_create(&OfError { call, error: error.code() }));
            }
        }
        Calls {
            durations,
            errors,
            in_flight,
            snapshots: Gauge::default(),
            sessions: Gauge::default(),
            by_kind,
        }
    }
}

/// Counts as open until it is dropped.
pub struct Opened(Gauge);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn opened(gauge: &Gauge) -> Opened {
    gauge.inc();
    Opened(gauge.clone())
}

/// A call that runs.
struct RunningCall<'c> {
    of_kind: Option<&'c (Histogram, Gauge)>,
    began: Instant,
}

impl Drop for RunningCall<'_> {
    /// Runs also after a panic.
    fn drop(&mut self) {
        if let Some((duration, in_flight)) = self.of_kind {
            in_flight.dec();
            duration.observe(self.began.elapsed().as_secs_f64());
        }
    }
}

impl Calls {
    /// Runs a call, and measures it.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn measure<T>(&self, kind: CallKind, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let of_kind = self.by_kind.get(kind as usize);
        if let Some((_, in_flight)) = of_kind {
            in_flight.inc();
        }
        let running = RunningCall { of_kind, began: instant() };
        let outcome = call();
        drop(running);
        if let Err(error) = &outcome {
            self.failed(kind, error.kind());
        }
        outcome
    }

    /// Counts a snapshot as open.
    pub fn opened_snapshot(&self) -> Opened {
        opened(&self.snapshots)
    }

    /// Counts a write session as open.
    pub fn opened_session(&self) -> Opened {
        opened(&self.sessions)
    }

    fn failed(&self, call: CallKind, error: ErrorKind) {
        self.errors.get_or_create(&OfError { call, error: error.code() }).inc();
    }

    /// Adds these figures to others.
    pub fn register(&self, registry: &mut Registry) {
        let seconds = Unit::Seconds;
        let about = "Calls by kind, and how long they took";
        registry.register_with_unit("call_duration", about, seconds, self.durations.clone());
        let about = "Calls that raised an error, by its code";
        registry.register("call_errors", about, self.errors.clone());
        registry.register("calls_in_flight", "Calls that run now", self.in_flight.clone());
        registry.register("open_snapshots", "Snapshots that are open", self.snapshots.clone());
        let about = "Write sessions that are neither committed nor aborted";
        registry.register("open_sessions", about, self.sessions.clone());
    }
}

/// An empty set of figures, whose names will begin with `idmatch_`.
pub fn registry() -> Registry {
    Registry::with_prefix("idmatch")
}

/// The figures as OpenMetrics text.
pub fn exposition(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    encode(&mut text, registry).ok();
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn kinds_are_in_their_order() {
        for (at, kind) in CallKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
    }

    #[test]
    fn calls_are_counted_by_kind_and_error() {
        let calls = Calls::default();
        for _ in 0..3 {
            calls.measure(CallKind::Lookup, || Ok(())).ok();
        }
        let busy = || Err::<(), _>(Error::new(ErrorKind::Busy, "not now"));
        assert!(calls.measure(CallKind::Erase, busy).is_err());
        let panics =
            || calls.measure(CallKind::Verify, || -> Result<()> { panic!("for the test") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        let mut registry = registry();
        calls.register(&mut registry);
        let text = exposition(&registry);
        for line in [
            "idmatch_call_duration_seconds_count{call=\"lookup\"} 3",
            "idmatch_call_duration_seconds_count{call=\"erase\"} 1",
            "idmatch_call_duration_seconds_count{call=\"verify\"} 1",
            "idmatch_call_duration_seconds_count{call=\"match\"} 0",
            "idmatch_call_errors_total{call=\"erase\",error=\"busy\"} 1",
            "idmatch_calls_in_flight{call=\"verify\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
