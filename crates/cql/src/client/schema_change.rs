//! Changes tables: with a session of all nodes, and through one node at a time.

use super::history::RequestHistory;
use super::requirements::RequiredReplicas;
use super::session::Client;
use crate::error::{without_text, write_error};
use idmatch_store::{Error, ErrorKind, Result};
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::policies::load_balancing::{
    LoadBalancingPolicy, NodeIdentifier, SingleTargetLoadBalancingPolicy,
};
use scylla::statement::Statement;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tracing::warn;
use uuid::Uuid;

/// Changes of tables take longer than requests.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);

impl Client {
    /// Changes tables, and waits for schema agreement.
    pub(crate) async fn change_schema(&self, cql: &str) -> Result<()> {
        let attempts = RequestHistory::new(&self.metrics);
        let mut statement = Statement::new(cql);
        statement.set_request_timeout(Some(SCHEMA_TIMEOUT));
        statement.set_history_listener(Arc::clone(&attempts) as _);
        // Two nodes that create a table at once may each create their own. So the change goes to one
        // node at a time, and all clients of the same connected nodes begin with the same one.
        statement.set_is_idempotent(false);
        let retries = AtomicUsize::new(0);
        let change = || async {
            let (mut statement, session) = (statement.clone(), self.session());
            let node = nth_node(&session, retries.fetch_add(1, Relaxed));
            statement.set_load_balancing_policy(node);
            session.query_unpaged(statement, ()).await?;
            // The driver itself waits only after a statement that changed tables.
            session.await_schema_agreement().await?;
            Ok(())
        };
        let retry_policy = self.unprepared_retry_policy(RequiredReplicas::Node);
        // A session with one node would agree with itself.
        let connected = tokio::time::timeout(SCHEMA_TIMEOUT, self.connection.full_session()).await;
        connected.map_err(|late| {
            let text = format!("no tables were changed: {}", self.replica_status());
            Error::with_source(ErrorKind::Unavailable, text, late)
        })?;
        let what = "a change of tables";
        let result = self.retries(what).repeat(None, &attempts, retry_policy, change).await;
        result.map_err(|failure| write_error(what, failure))
    }

    /// Refreshes the driver's metadata: which nodes have which rows of a new keyspace.
    pub(crate) async fn learn_of_keyspace(&self) -> Result<()> {
        let what = "cannot learn where the rows of a new keyspace are";
        let learnt = self.session().refresh_metadata().await;
        learnt.map_err(|e| Error::with_source(ErrorKind::Unavailable, what, e))
    }

    /// Waits for schema agreement of all connected nodes, for at most the total timeout.
    pub(crate) async fn wait_for_agreement(&self) {
        let agreement =
            async { self.connection.full_session().await.await_schema_agreement().await };
        // The next request shows whether they agree.
        match tokio::time::timeout(self.settings.timeout, agreement).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                let error = ExecutionError::from(error);
                warn!(error = %without_text(&error), "nodes do not agree on the schema");
            }
            Err(_) => warn!("nodes do not agree on the schema in time"),
        }
    }
}

/// Targets the n-th connected node, in an order that is the same for all clients.
fn nth_node(session: &Session, n: usize) -> Option<Arc<dyn LoadBalancingPolicy>> {
    let cluster_state = session.get_cluster_state();
    let connected = cluster_state.get_nodes_info().iter().filter(|node| node.is_connected());
    let nodes: BTreeSet<Uuid> = connected.map(|node| node.host_id).collect();
    let node = *nodes.iter().nth(n % nodes.len().max(1))?;
    Some(SingleTargetLoadBalancingPolicy::new(NodeIdentifier::HostId(node), None))
}
