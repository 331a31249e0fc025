//! Prepares statements: once, with whom they ask, and again while nodes do not answer.

use super::{Client, FIRST_PAUSE, Use};
use crate::errors::{preparation_outcome, unprepared};
use idmatch_store::{Error, ErrorKind, Result};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency, Statement};
use std::sync::PoisonError;
use std::time::Instant;

const PAGE_ROWS: i32 = 5_000;

/// Whether a statement is of the catalog: only those choose who has to agree on a condition.
pub(super) fn is_of_catalog(statement: &PreparedStatement) -> bool {
    statement.get_serial_consistency().is_some()
}

impl Client {
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
                Ok(Err(error))
                    if !preparation_outcome(&error).may_pass() || Instant::now() >= until =>
                {
                    return Err(unprepared(cql, error));
                }
                Err(late) if Instant::now() >= until => {
                    let text = "the servers do not prepare statements in time";
                    return Err(Error::with_source(ErrorKind::Unavailable, text, late));
                }
                _ => tokio::time::sleep(FIRST_PAUSE).await,
            }
        }
    }
}
