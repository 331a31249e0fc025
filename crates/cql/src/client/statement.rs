//! A prepared statement, and how long it is retried.

use super::history::RequestHistory;
use super::metrics::ClientMetrics;
use super::requirements::RequiredReplicas;
use super::retry::RetryPolicy;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;
use std::time::Duration;

/// A statement that the servers know.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(super) statement: PreparedStatement,
    /// How long it is retried while servers are overloaded.
    pub(super) within: Duration,
    /// Whether it is about the catalog, not about rows.
    pub(super) of_catalog: bool,
    pub(super) needs: RequiredReplicas,
}

impl Prepared {
    /// Sets the most rows of a page.
    pub(crate) fn set_page_size(&mut self, rows: i32) {
        self.statement.set_page_size(rows);
    }

    pub(super) fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy { within: self.within, needs: self.needs }
    }

    /// The statement for one request, and the record of its attempts.
    pub(super) fn watched(
        &self,
        metrics: &Arc<ClientMetrics>,
    ) -> (PreparedStatement, Arc<RequestHistory>) {
        let (mut statement, attempts) = (self.statement.clone(), RequestHistory::new(metrics));
        statement.set_history_listener(Arc::clone(&attempts) as _);
        (statement, attempts)
    }
}
