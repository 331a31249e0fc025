//! The log of operations that take long: when each began, how it ended, and how long it took. The caller gets the
//! text of an error; the log has its kind. Must not know what the operations do.

use crate::sync::{self, millis};
use crate::versions::VersionSet;
use idmatch_model::TableId;
use idmatch_store::{Finding, Result};
use tracing::{info, warn};

/// Does something, and logs its begin and its end.
pub(super) fn logged<T>(
    operation: &'static str,
    table: &str,
    run: impl FnOnce() -> Result<T>,
) -> Result<T> {
    info!(operation, table, "operation began");
    let began = sync::instant();
    let outcome = run();
    let ended = outcome.as_ref().map_or_else(|e| e.kind().code(), |_| "done");
    info!(operation, table, outcome = ended, ms = millis(began), "operation ended");
    outcome
}

/// Logs what a check has found to be wrong.
pub(super) fn log_findings(table: &str, findings: &[Finding]) {
    for Finding { place, problem } in findings {
        warn!(table, file = place, problem, "damage was found");
    }
}

/// The name of a table, for the log; empty where it is not there.
pub(super) fn name_of(versions: &VersionSet, table: TableId) -> String {
    let version = versions.current();
    version.tables.get(&table.into()).map_or(String::new(), |table| table.name().to_string())
}
