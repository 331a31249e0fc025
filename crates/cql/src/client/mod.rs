//! The connection to the servers: requests with their limits and repetitions.
//!
//! Owns the runtime that the driver works in; the rest of the crate is called from other threads;
//! `runtime` is how they wait. `connection` makes the session, `bootstrap` does while a node hangs, `tls`
//! encrypts it, `limiter` says when a request may be sent, `speculation` when another node is asked too,
//! `history` what became of it, `replicas` what it needed. Must not know any table.
//!
//! Invariants:
//! - every statement is idempotent, so that it may be sent again, and to two nodes at once; only a
//!   change of tables is sent to one node at a time;
//! - requests about rows wait for their turn. Those of the catalog do not, but count: others wait for
//!   them while having turns.

mod bootstrap;
mod connect_error;
mod connection;
mod history;
mod limiter;
pub(crate) mod paging;
mod prepare;
mod replicas;
mod runtime;
mod speculation;
mod tls;

use crate::error::{Failure, is_unheard_of, outcome, unread, unwritten};
use crate::settings::Settings;
use connection::Connection;
use history::Attempts;
use idmatch_store::{Error, ErrorKind, Result};
use limiter::Flow;
use parking_lot::Mutex;
use prepare::Pace;
pub(crate) use prepare::Prepared;
use replicas::Needs;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::policies::load_balancing::{
    LoadBalancingPolicy, NodeIdentifier, SingleTargetLoadBalancingPolicy,
};
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::row::SerializeRow;
use scylla::statement::Statement;
use scylla::statement::batch::{Batch, BatchType};
use speculation::Patience;
use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::time::Instant;
use uuid::Uuid;

/// The first wait before a request is repeated, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Changes of tables take longer than requests.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);

/// A session, and how it is used.
pub(crate) struct Client {
    connection: Connection,
    /// Where work is started; it may outlive the runtime, and then does nothing.
    handle: Handle,
    /// There until this is dropped.
    runtime: Option<Runtime>,
    flow: Flow,
    /// Of what is not prepared by itself: batches, and what is asked once.
    bulk: Arc<Patience>,
    /// The statements of the catalog.
    prepared: Mutex<HashMap<String, Prepared>>,
    settings: Settings,
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
pub(crate) struct Turn<'c> {
    client: &'c Client,
    turn: limiter::Turn<'c>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// `Unavailable` where no contact point answers, `InvalidArgument` where the servers do not take
    /// what the address says of user, password, TLS or datacenter, or a file of TLS is wrong.
    pub(crate) fn connect(settings: Settings) -> Result<Client> {
        let runtime = runtime::runtime()?;
        let bulk = Arc::new(Patience::new(&settings, speculation::BULK));
        let connection = runtime.block_on(connection::connect(&settings, &bulk))?;
        let flow = Flow::new(settings.in_flight, settings.max_requests_per_second);
        let (handle, prepared) = (runtime.handle().clone(), Mutex::default());
        Ok(Client { connection, handle, runtime: Some(runtime), flow, bulk, prepared, settings })
    }

    fn session(&self) -> Arc<Session> {
        self.connection.session()
    }

    /// What it was told.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Waits for the right to send a write about rows.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        Turn { client: self, turn: self.flow.turn().await }
    }

    async fn turn_for(&self, prepared: &Prepared) -> Option<limiter::Turn<'_>> {
        if prepared.of_catalog { None } else { Some(self.flow.turn().await) }
    }

    /// Reads all rows there are, when they are known to be few. Repeats until it is answered, or its
    /// time is over.
    pub(crate) async fn read(
        &self,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<QueryRowsResult> {
        let turn = self.turn_for(prepared).await;
        let (statement, attempts) = prepared.watched();
        let read = || async { self.session().execute_unpaged(&statement, &values).await };
        let result = self.repeat(turn.as_ref(), &attempts, prepared.pace(), read).await;
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
        let turn = self.turn_for(prepared).await;
        let (statement, attempts) = prepared.watched();
        let read = || async {
            self.session().execute_single_page(&statement, &values, state.clone()).await
        };
        let result = self.repeat(turn.as_ref(), &attempts, prepared.pace(), read).await;
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
        let turn = self.turn_for(prepared).await;
        self.write_in(turn.as_ref(), what, prepared, values).await
    }

    /// The same for the same statement with several values, all for one partition.
    pub(crate) async fn write_batch<V: SerializeRow>(
        &self,
        what: &str,
        prepared: &Prepared,
        values: &[V],
    ) -> Result<()> {
        let turn = self.turn_for(prepared).await;
        self.write_batch_in(turn.as_ref(), what, prepared, values).await
    }

    async fn write_in(
        &self,
        turn: Option<&limiter::Turn<'_>>,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<QueryResult> {
        let (statement, attempts) = prepared.watched();
        let write = || async { self.session().execute_unpaged(&statement, &values).await };
        let result = self.repeat(turn, &attempts, prepared.pace(), write).await;
        result.map_err(|failure| unwritten(what, failure))
    }

    async fn write_batch_in<V: SerializeRow>(
        &self,
        turn: Option<&limiter::Turn<'_>>,
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
        let pace = self.bulk_pace(prepared.pace().needs);
        let result = self.repeat(turn, &attempts, pace, write).await.map(drop);
        result.map_err(|failure| unwritten(what, failure))
    }

    /// Changes what tables there are, and waits until all servers know.
    pub(crate) async fn change_schema(&self, cql: &str) -> Result<()> {
        let attempts = Arc::new(Attempts::default());
        let mut statement = Statement::new(cql);
        statement.set_request_timeout(Some(SCHEMA_TIMEOUT));
        statement.set_history_listener(Arc::clone(&attempts) as _);
        // Two nodes that make a table at once may each make their own. So it is sent to one at a time,
        // and all clients that can ask the same nodes begin with the same one.
        statement.set_is_idempotent(false);
        let repetition = AtomicUsize::new(0);
        let change = || async {
            let (mut statement, session) = (statement.clone(), self.session());
            let node = nth_node(&session, repetition.fetch_add(1, Relaxed));
            statement.set_load_balancing_policy(node);
            session.query_unpaged(statement, ()).await?;
            // The driver waits only for what was changed just now.
            session.await_schema_agreement().await?;
            Ok(())
        };
        let pace = Pace { patience: None, ..self.bulk_pace(Needs::Node) };
        // One node alone would agree with itself.
        let whole = tokio::time::timeout(SCHEMA_TIMEOUT, self.connection.whole()).await;
        whole.map_err(|late| {
            let text = format!("no tables were changed: {}", self.alive());
            Error::with_source(ErrorKind::Unavailable, text, late)
        })?;
        let result = self.repeat(None, &attempts, pace, change).await;
        result.map_err(|failure| unwritten("a change of tables", failure))
    }

    /// Learns which nodes have which rows of a keyspace that was made.
    pub(crate) async fn learn_of_keyspace(&self) -> Result<()> {
        let what = "cannot learn where the rows of a new keyspace are";
        let learnt = self.session().refresh_metadata().await;
        learnt.map_err(|e| Error::with_source(ErrorKind::Unavailable, what, e))
    }

    /// Waits until all nodes that can be asked know the same tables, as long as requests are repeated.
    pub(crate) async fn wait_for_agreement(&self) {
        let agreement = async { self.connection.whole().await.await_schema_agreement().await };
        // What is asked next tells whether it was reached.
        let _ = tokio::time::timeout(self.settings.timeout, agreement).await;
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
    fn bulk_pace(&self, needs: Needs) -> Pace<'_> {
        Pace { within: self.settings.timeout, patience: Some(&self.bulk), needs }
    }

    /// Tries until it goes well, its time is over, or trying does not help. Its time is that of `pace` for
    /// servers that have too much to do, for others `timeout`; it is counted from here, and does not begin
    /// while a request waits for its turn.
    async fn repeat<T, F>(
        &self,
        turn: Option<&limiter::Turn<'_>>,
        attempts: &Attempts,
        pace: Pace<'_>,
        attempt: impl Fn() -> F,
    ) -> std::result::Result<T, Failure>
    where
        F: Future<Output = std::result::Result<T, ExecutionError>>,
    {
        let start = Instant::now();
        let (mut pause, mut counted, mut agreed) = (FIRST_PAUSE, 0, false);
        loop {
            let moment = self.flow.moment();
            let began = Instant::now();
            let result = attempt().await;
            // One was waited for; more are those that the driver added, or sent without a turn.
            let sent = attempts.sent() - counted;
            counted += sent;
            self.flow.owe(sent.saturating_sub(u64::from(turn.is_some())));
            let late = matches!(result, Err(ExecutionError::RequestTimeout(_)));
            let is_overload = attempts.met_overload() || late;
            let until = start + if is_overload { pace.within } else { self.settings.timeout };
            if is_overload {
                self.flow.overloaded(moment);
            } else if result.is_ok() {
                self.flow.answered();
            }
            let error = match result {
                Ok(done) => {
                    if let Some(patience) = pace.patience {
                        patience.answered(began.elapsed());
                    }
                    return Ok(done);
                }
                Err(error) => error,
            };
            let failure = |error| {
                let servers = self.needed_and_alive(pace.needs, attempts, &error);
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
            if turn.is_some() {
                let ready = tokio::time::timeout_at(until, self.flow.below_ceiling()).await;
                if ready.is_err() {
                    return Err(failure(error));
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl Turn<'_> {
    /// As [`Client::write`].
    pub(crate) async fn write(
        self,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<()> {
        self.client.write_in(Some(&self.turn), what, prepared, values).await.map(drop)
    }

    /// As [`Client::write_batch`].
    pub(crate) async fn write_batch<V: SerializeRow>(
        self,
        what: &str,
        prepared: &Prepared,
        values: &[V],
    ) -> Result<()> {
        self.client.write_batch_in(Some(&self.turn), what, prepared, values).await
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

/// To ask one of the nodes that can be asked, in an order that is the same for all clients.
fn nth_node(session: &Session, n: usize) -> Option<Arc<dyn LoadBalancingPolicy>> {
    let state = session.get_cluster_state();
    let able = state.get_nodes_info().iter().filter(|node| node.is_connected());
    let nodes: BTreeSet<Uuid> = able.map(|node| node.host_id).collect();
    let node = *nodes.iter().nth(n % nodes.len().max(1))?;
    Some(SingleTargetLoadBalancingPolicy::new(NodeIdentifier::HostId(node), None))
}

fn rows(what: &str, result: QueryResult) -> Result<QueryRowsResult> {
    result.into_rows_result().map_err(|e| crate::error::unexpected(what, e))
}
