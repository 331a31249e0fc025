//! A session with its limits and repetitions: sends requests until they are answered, or their time is over.
//!
//! Must not know any table.

use super::connection::Connection;
use super::history::Attempts;
use super::limiter::RequestLimiter;
use super::prepared::{Prepared, RetryPolicy};
use super::replicas::{Needs, needed_and_alive, replica_status};
use super::speculation::AdaptiveSpeculation;
use crate::error::{Failure, is_unheard_of, outcome, unread, unwritten};
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

/// The first wait before a request is repeated, and the longest.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A session, and how it is used.
pub(crate) struct Client {
    pub(super) connection: Connection,
    /// Where work is started; it may outlive the runtime, and then does nothing.
    pub(super) runtime_handle: Handle,
    /// There until this is dropped.
    runtime: Option<Runtime>,
    limiter: RequestLimiter,
    /// Of what is not prepared by itself: batches, and what is asked once.
    bulk: Arc<AdaptiveSpeculation>,
    /// The statements of the catalog.
    pub(super) prepared: Mutex<HashMap<String, Prepared>>,
    pub(super) settings: Settings,
}

/// What a statement is for, or work with many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Reads few rows.
    Read,
    /// Reads the rows of a list of keys.
    List,
    /// Reads many rows.
    Scan,
    /// Writes a row.
    Write,
}

/// The right to send one write about rows. What is written may depend on the moment: it is to be
/// prepared when the turn has come, because that may take long.
pub(crate) struct Permit<'c> {
    client: &'c Client,
    permit: super::limiter::Permit<'c>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// `Unavailable` where no contact point answers, `InvalidArgument` where the servers do not take
    /// what the address says of user, password, TLS or datacenter, or a file of TLS is wrong.
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

    /// What it was told.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Waits for the right to send a write about rows.
    pub(crate) async fn permit(&self) -> Permit<'_> {
        Permit { client: self, permit: self.limiter.permit().await }
    }

    async fn turn_for(&self, prepared: &Prepared) -> Option<super::limiter::Permit<'_>> {
        if prepared.of_catalog { None } else { Some(self.limiter.permit().await) }
    }

    /// Reads all rows there are, when they are known to be few. Repeats until it is answered, or its
    /// time is over.
    pub(crate) async fn read(
        &self,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<QueryRowsResult> {
        let permit = self.turn_for(prepared).await;
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
        let permit = self.turn_for(prepared).await;
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

    /// Writes. Repeats until it is acknowledged, or its time is over.
    ///
    /// # Errors
    /// `UnknownOutcome` when its time is over; `Io` when the servers refuse it, and none of them may
    /// have done it.
    pub(crate) async fn write(
        &self,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<QueryResult> {
        let permit = self.turn_for(prepared).await;
        self.write_in(permit.as_ref(), what, prepared, values).await
    }

    /// The same for the same statement with several values, all for one partition.
    pub(crate) async fn write_batch<V: SerializeRow>(
        &self,
        what: &str,
        prepared: &Prepared,
        values: &[V],
    ) -> Result<()> {
        let permit = self.turn_for(prepared).await;
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
        let retry_policy = self.bulk_pace(prepared.retry_policy().needs);
        let result = self.repeat(permit, &attempts, retry_policy, write).await.map(drop);
        result.map_err(|failure| unwritten(what, failure))
    }

    /// Which nodes are not connected.
    pub(super) fn replica_status(&self) -> String {
        replica_status(&self.session(), self.connection.is_whole())
    }

    /// Asks once, without preparation.
    pub(crate) async fn ask(&self, what: &str, cql: &str) -> Result<QueryRowsResult> {
        let attempts = Arc::new(Attempts::default());
        let mut statement = Statement::new(cql);
        statement.set_is_idempotent(true);
        statement.set_history_listener(Arc::clone(&attempts) as _);
        let ask = || async { self.session().query_unpaged(statement.clone(), ()).await };
        let result = self.repeat(None, &attempts, self.bulk_pace(Needs::Node), ask).await;
        rows(what, result.map_err(|failure| unread(what, failure))?)
    }

    /// That of requests that are not prepared by themselves.
    pub(super) fn bulk_pace(&self, needs: Needs) -> RetryPolicy<'_> {
        RetryPolicy { within: self.settings.timeout, speculation: Some(&self.bulk), needs }
    }

    /// Tries until it goes well, its time is over, or trying does not help. Its time is that of `pace` for
    /// servers that have too much to do, for others `timeout`; it is counted from here, and does not begin
    /// while a request waits for its turn.
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
            // One was waited for; more are those that the driver added, or sent without a turn.
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
            // What one node does not know, another may; what is unknown when they agree, is not there.
            let unheard_of = is_unheard_of(&error) && !agreed;
            let may_pass = unheard_of || outcome(&error).may_pass();
            if !may_pass || Instant::now() + pause >= until {
                return Err(failure(error));
            }
            if unheard_of {
                let check = async { self.connection.whole().await.check_schema_agreement().await };
                let checked = tokio::time::timeout(self.settings.request_timeout, check).await;
                agreed = matches!(checked, Ok(Ok(Some(_))));
            }
            // Not all at the same moment.
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            if permit.is_some() {
                let ready = tokio::time::timeout_at(until, self.limiter.below_ceiling()).await;
                if ready.is_err() {
                    return Err(failure(error));
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl Permit<'_> {
    /// As [`Client::write`].
    pub(crate) async fn write(
        self,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<()> {
        self.client.write_in(Some(&self.permit), what, prepared, values).await.map(drop)
    }

    /// As [`Client::write_batch`].
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
    /// The last owner may be one of the runtime's own tasks, where it cannot be waited for.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn rows(what: &str, result: QueryResult) -> Result<QueryRowsResult> {
    result.into_rows_result().map_err(|e| crate::error::unexpected(what, e))
}
