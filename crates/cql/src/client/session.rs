//! A session with its limits and retries: sends a request until it is answered, or its time is over.
//!
//! Must not know any table.

use super::connection::Connection;
use super::history::Attempts;
use super::limiter::RequestLimiter;
use super::prepared::{Prepared, RetryPolicy};
use super::replicas::{Needs, needed_and_alive, replica_status};
use super::speculation::AdaptiveSpeculation;
use crate::error::{Failure, names_unknown_table, outcome, unread, unwritten};
use crate::settings::Settings;
use idmatch_store::Result;
use parking_lot::Mutex;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::row::SerializeRow;
use scylla::statement::Statement;
use scylla::statement::batch::{Batch, BatchType};
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::time::Instant;

/// The first backoff before a retry, and the longest.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A session with its runtime, limits and settings.
pub(crate) struct Client {
    pub(super) connection: Connection,
    /// Starts work. It may outlive the runtime, and then does nothing.
    pub(super) runtime_handle: Handle,
    /// `None` only while the client is dropped.
    runtime: Option<Runtime>,
    limiter: RequestLimiter,
    /// The speculation of requests that are not prepared alone: batches and unprepared statements.
    bulk: Arc<AdaptiveSpeculation>,
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
pub(crate) struct Permit<'c> {
    client: &'c Client,
    permit: super::limiter::Permit<'c>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// `Unavailable` if no contact point answers. `InvalidArgument` if the servers reject the user,
    /// password, TLS or datacenter of the address, or if a TLS file is wrong.
    pub(crate) fn connect(settings: Settings) -> Result<Client> {
        let runtime = super::runtime::runtime()?;
        let bulk = Arc::new(AdaptiveSpeculation::new(&settings, super::speculation::BULK));
        let connection = runtime.block_on(super::connection::connect(&settings, &bulk))?;
        let limiter = RequestLimiter::new(settings.in_flight, settings.max_requests_per_second);
        let (runtime_handle, prepared) = (runtime.handle().clone(), Mutex::default());
        Ok(Client {
            connection,
            runtime_handle,
            runtime: Some(runtime),
            limiter,
            bulk,
            prepared,
            settings,
        })
    }

    pub(super) fn session(&self) -> Arc<Session> {
        self.connection.session()
    }

    /// The settings of the client.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Waits for a permit to send a write about rows.
    pub(crate) async fn permit(&self) -> Permit<'_> {
        Permit { client: self, permit: self.limiter.permit().await }
    }

    async fn permit_for(&self, prepared: &Prepared) -> Option<super::limiter::Permit<'_>> {
        if prepared.of_catalog { None } else { Some(self.limiter.permit().await) }
    }

    /// Reads all rows of a statement that has few. Retries until it is answered, or its time is over.
    pub(crate) async fn read(
        &self,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<QueryRowsResult> {
        let permit = self.permit_for(prepared).await;
        let (statement, attempts) = prepared.watched();
        let read = || async { self.session().execute_unpaged(&statement, &values).await };
        let result = self.repeat(permit.as_ref(), &attempts, prepared.retry_policy(), read).await;
        rows(what, result.map_err(|failure| unread(what, failure))?)
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
        let (statement, attempts) = prepared.watched();
        let read = || async {
            self.session().execute_single_page(&statement, &values, state.clone()).await
        };
        let result = self.repeat(permit.as_ref(), &attempts, prepared.retry_policy(), read).await;
        let (result, next) = result.map_err(|failure| unread(what, failure))?;
        let next = match next {
            PagingStateResponse::HasMorePages { state } => Some(state),
            PagingStateResponse::NoMorePages => None,
        };
        Ok((rows(what, result)?, next))
    }

    /// Writes. Retries until it is acknowledged, or its time is over.
    ///
    /// # Errors
    /// `UnknownOutcome` if its time is over; `Io` if the servers refuse it, and none of them may have
    /// done it.
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

    async fn write_in(
        &self,
        permit: Option<&super::limiter::Permit<'_>>,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<QueryResult> {
        let (statement, attempts) = prepared.watched();
        let write = || async { self.session().execute_unpaged(&statement, &values).await };
        let result = self.repeat(permit, &attempts, prepared.retry_policy(), write).await;
        result.map_err(|failure| unwritten(what, failure))
    }

    async fn write_batch_in<V: SerializeRow>(
        &self,
        permit: Option<&super::limiter::Permit<'_>>,
        what: &str,
        prepared: &Prepared,
        values: &[V],
    ) -> Result<()> {
        let statements = values.iter().map(|_| prepared.statement.clone().into()).collect();
        let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        batch.set_is_idempotent(true);
        if let Some(consistency) = prepared.statement.get_consistency() {
            batch.set_consistency(consistency);
        }
        let attempts = Arc::new(Attempts::default());
        batch.set_history_listener(Arc::clone(&attempts) as _);
        let write = || async { self.session().batch(&batch, values).await };
        let retry_policy = self.bulk_retry_policy(prepared.retry_policy().needs);
        let result = self.repeat(permit, &attempts, retry_policy, write).await.map(drop);
        result.map_err(|failure| unwritten(what, failure))
    }

    /// Describes which nodes are not connected.
    pub(super) fn replica_status(&self) -> String {
        replica_status(&self.session(), self.connection.is_whole())
    }

    /// Reads with a statement that is not prepared.
    pub(crate) async fn ask(&self, what: &str, cql: &str) -> Result<QueryRowsResult> {
        let attempts = Arc::new(Attempts::default());
        let mut statement = Statement::new(cql);
        statement.set_is_idempotent(true);
        statement.set_history_listener(Arc::clone(&attempts) as _);
        let ask = || async { self.session().query_unpaged(statement.clone(), ()).await };
        let result = self.repeat(None, &attempts, self.bulk_retry_policy(Needs::Node), ask).await;
        rows(what, result.map_err(|failure| unread(what, failure))?)
    }

    /// The retry policy of requests that are not prepared alone.
    pub(super) fn bulk_retry_policy(&self, needs: Needs) -> RetryPolicy<'_> {
        RetryPolicy { within: self.settings.timeout, speculation: Some(&self.bulk), needs }
    }

    /// Retries until an attempt succeeds, its time is over, or a retry does not help. Its time is that of
    /// `retry_policy` while servers are overloaded, and `timeout` otherwise. It starts here, after the
    /// wait for a permit.
    pub(super) async fn repeat<T, F>(
        &self,
        permit: Option<&super::limiter::Permit<'_>>,
        attempts: &Attempts,
        retry_policy: RetryPolicy<'_>,
        attempt: impl Fn() -> F,
    ) -> std::result::Result<T, Failure>
    where
        F: Future<Output = std::result::Result<T, ExecutionError>>,
    {
        let start = Instant::now();
        let (mut pause, mut counted, mut agreed) = (FIRST_PAUSE, 0, false);
        loop {
            let epoch = self.limiter.epoch();
            let began = Instant::now();
            let result = attempt().await;
            // With a permit, one attempt waited for the rate limit. All others did not.
            let sent = attempts.sent() - counted;
            counted += sent;
            self.limiter.charge(sent.saturating_sub(u64::from(permit.is_some())));
            let late = matches!(result, Err(ExecutionError::RequestTimeout(_)));
            let is_overload = attempts.met_overload() || late;
            let until =
                start + if is_overload { retry_policy.within } else { self.settings.timeout };
            if is_overload {
                self.limiter.overloaded(epoch);
            } else if result.is_ok() {
                self.limiter.answered();
            }
            let error = match result {
                Ok(done) => {
                    if let Some(speculation) = retry_policy.speculation {
                        speculation.answered(began.elapsed());
                    }
                    return Ok(done);
                }
                Err(error) => error,
            };
            let failure = |error| {
                let servers = needed_and_alive(
                    (&self.session(), &self.settings, self.connection.is_whole()),
                    (retry_policy.needs, attempts, &error),
                );
                Failure { may_be_done: attempts.may_be_done(), servers, error }
            };
            // Another node may know a table that this one does not. After schema agreement, an unknown
            // table does not exist.
            let is_unknown_table = names_unknown_table(&error) && !agreed;
            let may_pass = is_unknown_table || outcome(&error).may_pass();
            if !may_pass || Instant::now() + pause >= until {
                return Err(failure(error));
            }
            if is_unknown_table {
                let check = async { self.connection.whole().await.check_schema_agreement().await };
                let checked = tokio::time::timeout(self.settings.request_timeout, check).await;
                agreed = matches!(checked, Ok(Ok(Some(_))));
            }
            // Jitter: clients do not retry at the same moment.
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            if permit.is_some() {
                let ready = tokio::time::timeout_at(until, self.limiter.wait_for_rate()).await;
                if ready.is_err() {
                    return Err(failure(error));
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl Permit<'_> {
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
