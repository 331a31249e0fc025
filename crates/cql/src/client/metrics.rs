//! What the client counts about its requests, for Prometheus.
//!
//! The only label is the address of a node. Must not know any table, statement or value.

use idmatch_store::durations;
use idmatch_store::locks::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use scylla::observability::history::AttemptId;
use std::net::{IpAddr, SocketAddr};
use tokio::time::Instant;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfNode {
    node: String,
}

impl From<IpAddr> for OfNode {
    fn from(node: IpAddr) -> OfNode {
        OfNode { node: node.to_string() }
    }
}

/// Counters of one client. An attempt is one request to one node; a request of the client takes one or more
/// attempts.
#[derive(Debug)]
pub(crate) struct ClientMetrics {
    attempts: Family<OfNode, Histogram, fn() -> Histogram>,
    errors: Family<OfNode, Counter>,
    overloads: Family<OfNode, Counter>,
    unanswered: Family<OfNode, Counter>,
    pub(super) speculative: Counter,
    pub(super) retries: Counter,
    /// Reads of metadata in the background that failed.
    pub(crate) refresh_failures: Counter,
}

impl Default for ClientMetrics {
    fn default() -> ClientMetrics {
        ClientMetrics {
            attempts: Family::new_with_constructor(durations),
            errors: Family::default(),
            overloads: Family::default(),
            unanswered: Family::default(),
            speculative: Counter::default(),
            retries: Counter::default(),
            refresh_failures: Counter::default(),
        }
    }
}

impl ClientMetrics {
    /// Creates the figures of a node, so that they are 0 before its first event.
    pub(super) fn know(&self, node: IpAddr) {
        drop(self.attempts.get_or_create(&node.into()));
        for counted in [&self.errors, &self.overloads, &self.unanswered] {
            drop(counted.get_or_create(&node.into()));
        }
    }

    /// Adds these figures to others.
    pub(super) fn register(&self, registry: &mut Registry) {
        let about = "Requests that a node has answered, by its address, and how long it took";
        let (seconds, attempts) = (Unit::Seconds, self.attempts.clone());
        registry.register_with_unit("cql_attempt_duration", about, seconds, attempts);
        let about = "Answers of a node that are errors, and connections that broke";
        registry.register("cql_attempt_errors", about, self.errors.clone());
        let about = "Of these, answers that the node is overloaded or late";
        registry.register("cql_overloads", about, self.overloads.clone());
        let about =
            "Requests without an answer of the node: another one was faster, or time was over";
        registry.register("cql_unanswered", about, self.unanswered.clone());
        let about = "Requests that were also sent to another node, because the first was slow";
        registry.register("cql_speculative_attempts", about, self.speculative.clone());
        let about = "Requests that were repeated after a pause";
        registry.register("cql_retries", about, self.retries.clone());
        let about = "Reads of metadata in the background that failed";
        registry.register("cql_metadata_refresh_failures", about, self.refresh_failures.clone());
    }
}

/// The attempts of one request that are under way.
#[derive(Debug, Default)]
pub(super) struct RunningAttempts(Mutex<Vec<Option<(IpAddr, Instant)>>>);

impl RunningAttempts {
    /// Notes that an attempt is sent to a node.
    pub(super) fn begin(&self, node: SocketAddr) -> AttemptId {
        let mut all = self.0.lock();
        all.push(Some((node.ip(), Instant::now())));
        AttemptId(all.len() - 1)
    }

    /// Notes that a node has answered.
    pub(super) fn answered(&self, attempt: AttemptId, metrics: &ClientMetrics) {
        if let Some((node, began)) = self.end(attempt) {
            let took = began.elapsed().as_secs_f64();
            metrics.attempts.get_or_create(&node.into()).observe(took);
        }
    }

    /// Notes that a node has answered with an error, or that the connection broke.
    pub(super) fn failed(&self, attempt: AttemptId, is_overload: bool, metrics: &ClientMetrics) {
        if let Some((node, _)) = self.end(attempt) {
            metrics.errors.get_or_create(&node.into()).inc();
            if is_overload {
                metrics.overloads.get_or_create(&node.into()).inc();
            }
        }
    }

    /// Counts the remaining attempts as unanswered: their request waits no longer.
    pub(super) fn given_up(&self, metrics: &ClientMetrics) {
        for (node, _) in self.0.lock().drain(..).flatten() {
            metrics.unanswered.get_or_create(&node.into()).inc();
        }
    }

    fn end(&self, attempt: AttemptId) -> Option<(IpAddr, Instant)> {
        self.0.lock().get_mut(attempt.0)?.take()
    }
}
