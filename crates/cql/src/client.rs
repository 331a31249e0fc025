//! The connection to the servers: requests with their limits and repetitions.
//!
//! Owns the runtime that the driver works in; the rest of the crate is called from threads of its own
//! and waits here. Must not know any table.
//!
//! Invariant: every statement is idempotent, so that it may be sent again, and to two nodes at once.

use crate::errors::{Outcome, outcome, unprepared, unread, unwritten};
use crate::settings::Settings;
use idmatch_store::{Error, ErrorKind, Result};
use scylla::client::PoolSize;
use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{ExecutionError, PrepareError};
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency, Statement};
use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The first wait before a request is repeated, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Changes of tables take longer than requests.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);
const PAGE_ROWS: i32 = 5_000;
/// Requests of many rows take longer in themselves; a second node is asked later.
const BULK_SPECULATION: Duration = Duration::from_secs(1);
/// How often nodes are asked whether all know of a change of tables.
const AGREEMENT_INTERVAL: Duration = Duration::from_millis(50);
/// A connection on which nothing is heard for so long is given up.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// A session, and how it is used.
pub(crate) struct Client {
    session: Session,
    /// Where work is started; it may outlive the runtime, and then does nothing.
    handle: Handle,
    /// There until this is dropped.
    runtime: Option<Runtime>,
    permits: Semaphore,
    /// For requests of many rows.
    bulk: ExecutionProfileHandle,
    /// The statements of the catalog.
    prepared: Mutex<HashMap<String, PreparedStatement>>,
    settings: Settings,
}

/// What a statement is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Reads few rows.
    Read,
    /// Reads many rows.
    Scan,
    /// Writes a row.
    Write,
}

impl Client {
    /// Connects. Fails with `Unavailable` where no contact point answers.
    pub(crate) fn connect(settings: Settings) -> Result<Client> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(std::thread::available_parallelism().map_or(2, NonZeroUsize::get))
            .thread_name("idmatch-cql")
            .enable_all()
            .build()
            .map_err(|e| Error::with_source(ErrorKind::Io, "cannot start threads", e))?;
        let session = runtime.block_on(session(&settings))?;
        check_datacenter(&settings, &session)?;
        let permits = Semaphore::new(settings.in_flight);
        let speculate_after = settings.speculate_after.map(|after| after.max(BULK_SPECULATION));
        let bulk = profile(&settings, speculate_after);
        let (handle, prepared) = (runtime.handle().clone(), Mutex::default());
        Ok(Client { session, handle, runtime: Some(runtime), permits, bulk, prepared, settings })
    }

    /// What it was told.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Waits for work. Must not be called from a task.
    pub(crate) fn wait<F: Future>(&self, work: F) -> F::Output {
        self.handle.block_on(work)
    }

    /// Starts work that goes on beside the caller.
    pub(crate) fn start<F>(&self, work: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.handle.spawn(work)
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>> {
        let permit = self.permits.acquire().await;
        permit.map_err(|e| Error::with_source(ErrorKind::Io, "the store is closed", e))
    }

    /// Prepares a statement about rows.
    pub(crate) async fn prepare(&self, cql: &str, used: Use) -> Result<PreparedStatement> {
        let mut prepared = self.prepared(cql).await?;
        prepared.set_consistency(match used {
            Use::Read | Use::Scan => self.settings.read_consistency,
            Use::Write => self.settings.write_consistency,
        });
        if used == Use::Scan {
            prepared.set_execution_profile_handle(Some(self.bulk.clone()));
        }
        Ok(prepared)
    }

    /// Prepares a statement of the catalog, once: all clients have to agree on that, whatever they
    /// choose for rows, and in all datacenters.
    pub(crate) async fn prepare_catalog(&self, cql: &str) -> Result<PreparedStatement> {
        let known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(cql).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let mut prepared = self.prepared(cql).await?;
        prepared.set_consistency(match cql.starts_with("SELECT") {
            true => Consistency::LocalQuorum,
            false => Consistency::EachQuorum,
        });
        prepared.set_serial_consistency(Some(SerialConsistency::Serial));
        prepared.set_execution_profile_handle(Some(self.bulk.clone()));
        let mut all = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(all.entry(cql.to_owned()).or_insert(prepared).clone())
    }

    async fn prepared(&self, cql: &str) -> Result<PreparedStatement> {
        let until = Instant::now() + self.settings.timeout;
        loop {
            let mut statement = Statement::new(cql).with_page_size(PAGE_ROWS);
            statement.set_is_idempotent(true);
            let preparing = self.session.prepare(statement);
            // The driver waits for every node, also for one that hangs.
            match tokio::time::timeout(self.settings.request_timeout, preparing).await {
                Ok(Ok(mut prepared)) => {
                    prepared.set_use_cached_result_metadata(true);
                    return Ok(prepared);
                }
                Ok(Err(error)) if !may_pass(&error) => return Err(unprepared(cql, error)),
                Ok(Err(error)) if Instant::now() >= until => return Err(unprepared(cql, error)),
                Err(late) if Instant::now() >= until => {
                    let text = "the servers do not prepare statements in time";
                    return Err(Error::with_source(ErrorKind::Unavailable, text, late));
                }
                _ => tokio::time::sleep(FIRST_PAUSE).await,
            }
        }
    }

    /// Reads all rows there are, when they are known to be few. Repeats until it is answered, or its
    /// time is over.
    pub(crate) async fn read(
        &self,
        what: &str,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryRowsResult> {
        let _permit = self.permit().await?;
        let read = || self.session.execute_unpaged(statement, &values);
        let result = self.repeat(read).await.map_err(|(_, e)| unread(what, e))?;
        rows(what, result)
    }

    /// Reads the page that follows `state`.
    pub(crate) async fn read_page(
        &self,
        what: &str,
        statement: &PreparedStatement,
        values: impl SerializeRow,
        state: PagingState,
    ) -> Result<(QueryRowsResult, Option<PagingState>)> {
        let _permit = self.permit().await?;
        let read = || self.session.execute_single_page(statement, &values, state.clone());
        let (result, next) = self.repeat(read).await.map_err(|(_, e)| unread(what, e))?;
        let next = match next {
            PagingStateResponse::HasMorePages { state } => Some(state),
            PagingStateResponse::NoMorePages => None,
        };
        Ok((rows(what, result)?, next))
    }

    /// Writes. Repeats until it is acknowledged, or its time is over: then `UnknownOutcome`, or
    /// `Unavailable` if it is certain that no server did it.
    pub(crate) async fn write(
        &self,
        what: &str,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryResult> {
        let _permit = self.permit().await?;
        let write = || self.session.execute_unpaged(statement, &values);
        self.repeat(write).await.map_err(|(worst, e)| unwritten(what, worst, e))
    }

    /// The same for the same statement with several values, all for one partition.
    pub(crate) async fn write_batch<V: SerializeRow>(
        &self,
        what: &str,
        statement: &PreparedStatement,
        values: &[V],
    ) -> Result<()> {
        let statements = values.iter().map(|_| statement.clone().into()).collect();
        let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        batch.set_is_idempotent(true);
        if let Some(consistency) = statement.get_consistency() {
            batch.set_consistency(consistency);
        }
        batch.set_execution_profile_handle(Some(self.bulk.clone()));
        let _permit = self.permit().await?;
        let write = || self.session.batch(&batch, values);
        self.repeat(write).await.map(drop).map_err(|(worst, e)| unwritten(what, worst, e))
    }

    /// Changes what tables there are, and waits until all servers know.
    pub(crate) async fn change_schema(&self, cql: &str) -> Result<()> {
        let mut statement = Statement::new(cql);
        statement.set_request_timeout(Some(SCHEMA_TIMEOUT));
        statement.set_is_idempotent(true);
        statement.set_execution_profile_handle(Some(self.bulk.clone()));
        let change = || self.session.query_unpaged(statement.clone(), ());
        let what = "a change of tables";
        self.repeat(change).await.map(drop).map_err(|(worst, e)| unwritten(what, worst, e))
    }

    /// Learns which nodes have which rows of a keyspace that was made.
    pub(crate) async fn learn_of_keyspace(&self) -> Result<()> {
        let what = "cannot learn where the rows of a new keyspace are";
        let learnt = self.session.refresh_metadata().await;
        learnt.map_err(|e| Error::with_source(ErrorKind::Unavailable, what, e))
    }

    /// Asks once, without preparation.
    pub(crate) async fn ask(&self, what: &str, cql: &str) -> Result<QueryRowsResult> {
        let ask = || self.session.query_unpaged(cql, ());
        let result = self.repeat(ask).await.map_err(|(_, e)| unread(what, e))?;
        rows(what, result)
    }

    /// Tries until it goes well, its time is over, or it is refused. An error comes with the least
    /// that is known of all attempts.
    async fn repeat<T, F>(
        &self,
        attempt: impl Fn() -> F,
    ) -> std::result::Result<T, (Outcome, ExecutionError)>
    where
        F: Future<Output = std::result::Result<T, ExecutionError>>,
    {
        let until = Instant::now() + self.settings.timeout;
        let (mut pause, mut worst) = (FIRST_PAUSE, None);
        loop {
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let this = outcome(&error);
            // Of several attempts, one that may have been done makes the whole uncertain.
            let so_far = if worst == Some(Outcome::Unknown) { Outcome::Unknown } else { this };
            worst = Some(so_far);
            if this == Outcome::Refused || Instant::now() + pause >= until {
                return Err((so_far, error));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
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

/// How requests are sent, asking another node after a while without an answer.
fn profile(settings: &Settings, speculate_after: Option<Duration>) -> ExecutionProfileHandle {
    let mut balancing = DefaultPolicy::builder().token_aware(true);
    if let Some(datacenter) = &settings.datacenter {
        balancing = balancing.prefer_datacenter(datacenter.clone());
    }
    let mut profile = ExecutionProfile::builder()
        .request_timeout(Some(settings.request_timeout))
        .consistency(settings.read_consistency)
        .load_balancing_policy(balancing.build());
    if let Some(retry_interval) = speculate_after {
        let policy = SimpleSpeculativeExecutionPolicy { max_retry_count: 2, retry_interval };
        profile = profile.speculative_execution_policy(Some(Arc::new(policy)));
    }
    profile.build().into_handle()
}

async fn session(settings: &Settings) -> Result<Session> {
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.nodes)
        .connection_timeout(settings.request_timeout)
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(KEEPALIVE)
        .pool_size(PoolSize::PerShard(NonZeroUsize::MIN))
        // What changes here are tables, whose columns are known.
        .refresh_metadata_on_auto_schema_agreement(false)
        .schema_agreement_interval(AGREEMENT_INTERVAL)
        .keyspaces_to_fetch([settings.keyspace.as_str()])
        .default_execution_profile_handle(profile(settings, settings.speculate_after));
    if let Some(login) = &settings.login {
        builder = builder.user(&login.user, &login.password);
    }
    // The driver tries every contact point, several times.
    match tokio::time::timeout(settings.timeout, builder.build()).await {
        Ok(connected) => connected.map_err(|e| unconnected(settings, e)),
        Err(late) => Err(unconnected(settings, late)),
    }
}

/// LOCAL_QUORUM is of the datacenter of whoever is asked: it has to be the same one each time.
fn check_datacenter(settings: &Settings, session: &Session) -> Result<()> {
    let state = session.get_cluster_state();
    let nodes = state.get_nodes_info().iter();
    let there: BTreeSet<&str> = nodes.filter_map(|node| node.datacenter.as_deref()).collect();
    let names = || there.iter().copied().collect::<Vec<_>>().join(", ");
    let wrong = match &settings.datacenter {
        None if there.len() > 1 => format!("the servers are in {}", names()),
        Some(chosen) if !there.contains(chosen.as_str()) => {
            format!("the servers are in {}, none in {chosen}", names())
        }
        _ => return Ok(()),
    };
    let text = format!("{wrong}; name the nearest datacenter in the address: datacenter=NAME");
    Err(Error::new(ErrorKind::InvalidArgument, text))
}

/// Whether a preparation may go well when it is tried again.
fn may_pass(error: &PrepareError) -> bool {
    match error {
        PrepareError::ConnectionPoolError(_) => true,
        PrepareError::AllAttemptsFailed { first_attempt } => {
            outcome(&ExecutionError::LastAttemptError(first_attempt.clone())) != Outcome::Refused
        }
        _ => false,
    }
}

fn unconnected(
    settings: &Settings,
    error: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    let nodes = settings.nodes.join(", ");
    let what =
        format!("cannot connect to {nodes}; check that the servers run, and user and password");
    Error::with_source(ErrorKind::Unavailable, what, error)
}

fn rows(what: &str, result: QueryResult) -> Result<QueryRowsResult> {
    result.into_rows_result().map_err(|e| crate::errors::unexpected(what, e))
}
