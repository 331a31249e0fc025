//! Prepares statements with their consistency, and says for how long each is retried (`Prepared::within`). A
//! node that does not respond does not stop it: it tries again.

use super::requirements::RequiredReplicas;
use super::retry::FIRST_PAUSE;
use super::session::{Client, Use};
use super::statement::Prepared;
use super::{connection, speculation};
use crate::error::{preparation_outcome, prepare_error};
use idmatch_store::{Error, ErrorKind, Result};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency, Statement};
use std::time::Duration;
use tokio::time::Instant;
use tracing::warn;

const PAGE_ROWS: i32 = 5_000;
/// While servers are overloaded, IN queries and scans are retried for this many times the timeout. No caller
/// waits for a single one of them, and each takes all of the servers' time to fail.
const BULK_TIMEOUT_FACTOR: u32 = 3;

impl Client {
    /// Prepares a statement about rows.
    pub(crate) async fn prepare(&self, cql: &str, used: Use) -> Result<Prepared> {
        let min_delay = match used {
            Use::Read | Use::List | Use::Write => Duration::ZERO,
            Use::Scan => speculation::BULK,
        };
        let consistency = match used {
            Use::Read | Use::List | Use::Scan => self.settings.read_consistency,
            Use::Write => self.settings.write_consistency,
        };
        let mut prepared =
            self.prepared(cql, min_delay, false, RequiredReplicas::Level(consistency)).await?;
        if matches!(used, Use::List | Use::Scan) {
            prepared.within = self.settings.timeout.saturating_mul(BULK_TIMEOUT_FACTOR);
        }
        Ok(prepared)
    }

    /// Prepares a statement of the catalog, once. All clients in all datacenters must agree on the
    /// catalog, whatever consistency they choose for rows.
    pub(crate) async fn prepare_catalog(&self, cql: &str) -> Result<Prepared> {
        let cached = self.prepared.lock().get(cql).cloned();
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let (min_delay, needs) = match cql.starts_with("SELECT") {
            // Requests about rows wait for this read.
            true => (Duration::ZERO, RequiredReplicas::Level(Consistency::LocalQuorum)),
            false => (speculation::CONDITIONAL, RequiredReplicas::Serial(Consistency::EachQuorum)),
        };
        let mut prepared = self.prepared(cql, min_delay, true, needs).await?;
        prepared.statement.set_serial_consistency(Some(SerialConsistency::Serial));
        let mut all = self.prepared.lock();
        Ok(all.entry(cql.to_owned()).or_insert(prepared).clone())
    }

    async fn prepared(
        &self,
        cql: &str,
        min_delay: Duration,
        of_catalog: bool,
        needs: RequiredReplicas,
    ) -> Result<Prepared> {
        let mut statement = self.statement(cql).await?;
        statement
            .set_execution_profile_handle(Some(connection::profile(&self.settings, min_delay)));
        if let RequiredReplicas::Level(consistency) | RequiredReplicas::Serial(consistency) = needs
        {
            statement.set_consistency(consistency);
        }
        Ok(Prepared { statement, within: self.settings.timeout, of_catalog, needs })
    }

    async fn statement(&self, cql: &str) -> Result<PreparedStatement> {
        let until = Instant::now() + self.settings.timeout;
        loop {
            let mut statement = Statement::new(cql).with_page_size(PAGE_ROWS);
            statement.set_is_idempotent(true);
            let (has_all_nodes, session) = (self.connection.has_all_nodes(), self.session());
            let preparing = session.prepare(statement);
            // The driver waits for every node, also for one that does not respond.
            match tokio::time::timeout(self.settings.request_timeout, preparing).await {
                Ok(Ok(mut prepared)) => {
                    prepared.set_use_cached_result_metadata(true);
                    return Ok(prepared);
                }
                // One node may not know a table yet that other nodes know.
                Ok(Err(_)) if !has_all_nodes && Instant::now() < until => {
                    let left = until.saturating_duration_since(Instant::now());
                    let connected =
                        tokio::time::timeout(left, self.connection.full_session()).await;
                    if connected.is_err() {
                        let servers = self.replica_status();
                        warn!(servers, "not all nodes are connected to in time");
                    }
                }
                Ok(Err(error))
                    if !preparation_outcome(&error).is_retryable() || Instant::now() >= until =>
                {
                    return Err(prepare_error(cql, &self.replica_status(), error));
                }
                Err(late) if Instant::now() >= until => {
                    let servers = self.replica_status();
                    let text = format!("the servers do not prepare statements in time; {servers}");
                    return Err(Error::with_source(ErrorKind::Unavailable, text, late));
                }
                _ => tokio::time::sleep(FIRST_PAUSE).await,
            }
        }
    }
}
