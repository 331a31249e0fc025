//! The figures of a client for Prometheus: its counters, and values that are read at each scrape.

use super::session::Client;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

impl Client {
    /// Adds the figures of this client to others.
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        for node in self.session().get_cluster_state().get_nodes_info() {
            self.metrics.know(node.address.ip());
        }
        self.metrics.register(registry);
        let (limit, in_flight) = self.limiter.in_flight();
        let about = "Requests about rows in flight";
        registry.register("cql_requests_in_flight", about, ConstGauge::new(in_flight as i64));
        let about = "Requests about rows that may be in flight; overloads halve it";
        registry.register("cql_requests_limit", about, ConstGauge::new(limit as i64));
        let of_driver = self.session().get_metrics();
        let connections = i64::try_from(of_driver.get_total_connections()).unwrap_or(i64::MAX);
        let about = "Open connections to nodes, without the one that watches the cluster";
        registry.register("cql_connections", about, ConstGauge::new(connections));
        let about = "Connections that were not made in time";
        let timeouts = ConstCounter::new(of_driver.get_connection_timeouts());
        registry.register("cql_connection_timeouts", about, timeouts);
        let (busy, threads) = self.busy();
        let about = "Time that the threads of the client have worked";
        let busy = ConstCounter::new(busy.as_secs_f64());
        registry.register_with_unit("cql_client_busy", about, Unit::Seconds, busy);
        let about = "Threads of the client";
        registry.register("cql_client_threads", about, ConstGauge::new(i64::from(threads)));
    }
}
