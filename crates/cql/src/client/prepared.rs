//! A prepared statement, and how its requests are repeated.

use super::history::Attempts;
use super::replicas::Needs;
use super::speculation::AdaptiveSpeculation;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;
use std::time::Duration;

/// A statement that the servers know, and what its answers take.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(super) statement: PreparedStatement,
    pub(super) speculation: Arc<AdaptiveSpeculation>,
    /// How long it is repeated while servers have too much to do.
    pub(super) within: Duration,
    /// Not about rows.
    pub(super) of_catalog: bool,
    pub(super) needs: Needs,
}

/// How a request is repeated, and what it needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPolicy<'p> {
    /// How long, while servers have too much to do.
    pub(super) within: Duration,
    /// What tells when another node is asked too.
    pub(super) speculation: Option<&'p AdaptiveSpeculation>,
    pub(super) needs: Needs,
}

impl Prepared {
    /// The pages of its answers are to have at most so many rows.
    pub(crate) fn set_page_size(&mut self, rows: i32) {
        self.statement.set_page_size(rows);
    }

    pub(super) fn retry_policy(&self) -> RetryPolicy<'_> {
        RetryPolicy { within: self.within, speculation: Some(&self.speculation), needs: self.needs }
    }

    /// For one request, of which every attempt is noted.
    pub(super) fn watched(&self) -> (PreparedStatement, Arc<Attempts>) {
        let (mut statement, attempts) = (self.statement.clone(), Arc::new(Attempts::default()));
        statement.set_history_listener(Arc::clone(&attempts) as _);
        (statement, attempts)
    }
}
