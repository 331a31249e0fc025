//! A session with its limits: sends reads, writes and batches, each with its permit and its retries.
//!
//! `retry` repeats attempts. Must not know any table.

use super::connection::Connection;
use super::history::RequestHistory;
use super::limiter::RequestLimiter;
use super::metrics::ClientMetrics;
use super::request_counts;
use super::requirements::{RequiredReplicas, replica_status};
use super::retry::{Retries, RetryPolicy};
use super::statement::Prepared;
use crate::error::{read_error, write_error};
use crate::settings::Settings;
use idmatch_store::Result;
use idmatch_store::locks::Mutex;
use scylla::client::session::Session;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::{SerialConsistency, Statement};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

/// A session with its runtime, limits and settings.
pub(crate) struct Client {
    pub(super) connection: Connection,
    /// Starts work. It may outlive the runtime, and then does nothing.
    pub(super) runtime_handle: Handle,
    /// `None` only while the client is dropped.
    runtime: Option<Runtime>,
    pub(super) limiter: RequestLimiter,
    pub(crate) metrics: Arc<ClientMetrics>,
    /// The prepared statements of the catalog, by their CQL.
    pub(super) prepared: Mutex<HashMap<String, Prepared>>,
    pub(super) settings: Settings,
}

/// The purpose of a statement, or of work with many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Reads few rows.
    Read,
    /// Reads the rows of an IN query.
    List,
    /// Reads many rows.
    Scan,
    /// Writes a row.
    Write,
}

/// The right to send one write about rows. The wait for it may take long, and the values may depend on
/// the moment: make them after the wait.
pub(crate) struct WritePermit<'c> {
    client: &'c Client,
    permit: super::limiter::RequestPermit<'c>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// `Unavailable` if no contact point answers. `InvalidArgument` if the servers reject the user,
    /// password, TLS or datacenter of the address, or if a TLS file is wrong.
    pub(crate) fn connect(settings: Settings) -> Result<Client> {
        let runtime = super::runtime::runtime()?;
        let connection = runtime.block_on(super::connection::connect(&settings))?;
        let limiter = RequestLimiter::new(settings.in_flight, settings.max_requests_per_second);
        let (runtime_handle, prepared) = (runtime.handle().clone(), Mutex::default());
        Ok(Client {
            connection,
            runtime_handle,
            runtime: Some(runtime),
            limiter,
            metrics: Arc::default(),
            prepared,
            settings,
        })
    }

    pub(super) fn session(&self) -> Arc<Session> {
        self.connection.session()
    }

    /// How long the threads of the client have worked, all together, and how many there are.
    pub(crate) fn busy(&self) -> (Duration, u32) {
        let metrics = self.runtime_handle.metrics();
        let workers = metrics.num_workers();
        let times = (0..workers).map(|worker| metrics.worker_total_busy_duration(worker));
        // There is one for each processor at most.
        (times.sum(), workers as u32)
    }

    /// The settings of the client.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Waits for a permit to send a write about rows.
    pub(crate) async fn permit(&self) -> WritePermit<'_> {
        WritePermit { client: self, permit: self.limiter.permit().await }
    }

    async fn permit_for(&self, prepared: &Prepared) -> Option<super::limiter::RequestPermit<'_>> {
        if prepared.of_catalog { None } else { Some(self.limiter.permit().await) }
    }

    /// Reads all rows of a statement that returns few. Retries until it is answered, or its time is over.
    pub(crate) async fn read(
        &self,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<QueryRowsResult> {
        let permit = self.permit_for(prepared).await;
        let (statement, attempts) = prepared.watched(&self.metrics);
        let read = || async { self.session().execute_unpaged(&statement, &values).await };
        let result = self
            .retries(what)
            .repeat(permit.as_ref(), &attempts, prepared.retry_policy(), read)
            .await;
        rows(what, result.map_err(|failure| read_error(what, failure))?)
    }

    /// Reads the page that follows `state`.
    pub(crate) async fn read_page(
        &self,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
        state: PagingState,
    ) -> Result<(QueryRowsResult, Option<PagingState>)> {
        let permit = self.permit_for(prepared).await;
        let (statement, attempts) = prepared.watched(&self.metrics);
        let is_first = state.as_bytes_slice().is_none();
        request_counts::asked(is_first);
        let read = || async {
            self.session().execute_single_page(&statement, &values, state.clone()).await
        };
        let result = self
            .retries(what)
            .repeat(permit.as_ref(), &attempts, prepared.retry_policy(), read)
            .await;
        let (result, next) = result.map_err(|failure| read_error(what, failure))?;
        request_counts::answered(is_first, attempts.sent());
        let next = match next {
            PagingStateResponse::HasMorePages { state } => Some(state),
            PagingStateResponse::NoMorePages => None,
        };
        Ok((rows(what, result)?, next))
    }

    /// Writes. Retries until it is acknowledged, or its time is over.
    ///
    /// # Errors
    /// `UnknownOutcome` if its time is over; `Io` if the servers refuse it and none of them may have applied
    /// it.
    pub(crate) async fn write(
        &self,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<QueryResult> {
        let permit = self.permit_for(prepared).await;
        self.write_in(permit.as_ref(), what, prepared, values).await
    }

    /// Writes several values with one statement, all to one partition, as [`Client::write`] does.
    pub(crate) async fn write_batch<V: SerializeRow>(
        &self,
        what: &str,
        prepared: &Prepared,
        values: &[V],
    ) -> Result<()> {
        let permit = self.permit_for(prepared).await;
        self.write_batch_in(permit.as_ref(), what, prepared, values).await
    }

    /// Writes with several statements to one partition of the catalog, all or nothing.
    ///
    /// # Errors
    /// As of [`Client::write`].
    pub(crate) async fn write_together<V: SerializeRow>(
        &self,
        what: &str,
        statements: &[&Prepared],
        values: &[V],
    ) -> Result<()> {
        let all: Vec<_> = statements.iter().map(|one| one.statement.clone().into()).collect();
        let mut batch = Batch::new_with_statements(BatchType::Unlogged, all);
        batch.set_serial_consistency(Some(SerialConsistency::Serial));
        self.send_batch(None, what, (batch, statements.first().copied()), values).await
    }

    async fn write_in(
        &self,
        permit: Option<&super::limiter::RequestPermit<'_>>,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<QueryResult> {
        let (statement, attempts) = prepared.watched(&self.metrics);
        let write = || async { self.session().execute_unpaged(&statement, &values).await };
        let result =
            self.retries(what).repeat(permit, &attempts, prepared.retry_policy(), write).await;
        result.map_err(|failure| write_error(what, failure))
    }

    async fn write_batch_in<V: SerializeRow>(
        &self,
        permit: Option<&super::limiter::RequestPermit<'_>>,
        what: &str,
        prepared: &Prepared,
        values: &[V],
    ) -> Result<()> {
        let statements = values.iter().map(|_| prepared.statement.clone().into()).collect();
        let batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        self.send_batch(permit, what, (batch, Some(prepared)), values).await
    }

    async fn send_batch<V: SerializeRow>(
        &self,
        permit: Option<&super::limiter::RequestPermit<'_>>,
        what: &str,
        (mut batch, of): (Batch, Option<&Prepared>),
        values: &[V],
    ) -> Result<()> {
        batch.set_is_idempotent(true);
        if let Some(consistency) = of.and_then(|prepared| prepared.statement.get_consistency()) {
            batch.set_consistency(consistency);
        }
        let attempts = RequestHistory::new(&self.metrics);
        batch.set_history_listener(Arc::clone(&attempts) as _);
        let write = || async { self.session().batch(&batch, values).await };
        let needs = of.map_or(RequiredReplicas::Node, |prepared| prepared.retry_policy().needs);
        let retry_policy = self.unprepared_retry_policy(needs);
        let result = self.retries(what).repeat(permit, &attempts, retry_policy, write).await;
        result.map(drop).map_err(|failure| write_error(what, failure))
    }

    /// Describes which nodes are not connected.
    pub(super) fn replica_status(&self) -> String {
        replica_status(&self.session(), self.connection.has_all_nodes())
    }

    /// Reads with a statement that is not prepared.
    pub(crate) async fn ask(&self, what: &str, cql: &str) -> Result<QueryRowsResult> {
        let attempts = RequestHistory::new(&self.metrics);
        let mut statement = Statement::new(cql);
        statement.set_is_idempotent(true);
        statement.set_history_listener(Arc::clone(&attempts) as _);
        let ask = || async { self.session().query_unpaged(statement.clone(), ()).await };
        let result = self
            .retries(what)
            .repeat(None, &attempts, self.unprepared_retry_policy(RequiredReplicas::Node), ask)
            .await;
        rows(what, result.map_err(|failure| read_error(what, failure))?)
    }

    /// The retry policy of requests that are not a single prepared statement.
    pub(super) fn unprepared_retry_policy(&self, needs: RequiredReplicas) -> RetryPolicy {
        RetryPolicy { within: self.settings.timeout, needs }
    }

    /// The retries of requests about `what`, as the log names it.
    pub(super) fn retries<'c>(&'c self, what: &'c str) -> Retries<'c> {
        let Client { connection, limiter, metrics, settings, .. } = self;
        Retries { what, connection, limiter, metrics, settings }
    }
}

impl WritePermit<'_> {
    /// Writes with this permit, as [`Client::write`] does.
    pub(crate) async fn write(
        self,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<()> {
        self.client.write_in(Some(&self.permit), what, prepared, values).await.map(drop)
    }

    /// Writes with this permit, as [`Client::write_batch`] does.
    pub(crate) async fn write_batch<V: SerializeRow>(
        self,
        what: &str,
        prepared: &Prepared,
        values: &[V],
    ) -> Result<()> {
        self.client.write_batch_in(Some(&self.permit), what, prepared, values).await
    }
}

impl Drop for Client {
    /// The last owner may be a task of the runtime, which cannot wait for the runtime.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn rows(what: &str, result: QueryResult) -> Result<QueryRowsResult> {
    result.into_rows_result().map_err(|e| crate::error::unexpected(what, e))
}
