//! The log of operations that take long: when each began, how it ended, and how long it took. The caller gets the
//! text of an error; the log has its kind. Must not know what the operations do.

use crate::sync::{self, millis};
use crate::versions::VersionSet;
use idmatch_model::{Side, TableId};
use idmatch_store::{Finding, Result};
use tracing::info;

/// The figures of a result that the log shows. Figures that cost anything to count are left out.
#[derive(Debug, Default)]
pub(super) struct ResultSizes {
    pub(super) rows: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) findings: Option<usize>,
}

/// Runs an operation, and logs its begin and its end, with figures of the result.
pub(super) fn logged<T>(
    operation: &'static str,
    table: &str,
    figures: impl FnOnce(&T) -> ResultSizes,
    run: impl FnOnce() -> Result<T>,
) -> Result<T> {
    info!(operation, table, "operation began");
    let began = sync::instant();
    let outcome = run();
    let ended = outcome.as_ref().map_or_else(|e| e.kind().code(), |_| "done");
    let ResultSizes { rows, bytes, findings } = outcome.as_ref().map(figures).unwrap_or_default();
    let ms = millis(began);
    info!(operation, table, outcome = ended, rows, bytes, findings, ms, "operation ended");
    outcome
}

/// The number of findings of a check.
pub(super) fn number_of(findings: &[Finding]) -> ResultSizes {
    ResultSizes { findings: Some(findings.len()), ..ResultSizes::default() }
}

/// The rows and the bytes of a table's segments; nothing where it is not there.
pub(super) fn figures_of(versions: &VersionSet, table: TableId) -> ResultSizes {
    let version = versions.current();
    let Some(table) = version.tables.get(&table.into()) else { return ResultSizes::default() };
    let by_id = table.segments(Side::Id).iter();
    ResultSizes {
        rows: Some(by_id.map(|segment| segment.header.rows).sum()),
        bytes: Some(table.all_segments().map(|segment| segment.header.file_len()).sum()),
        findings: None,
    }
}

/// The name of a table, for the log; empty where it is not there.
pub(super) fn name_of(versions: &VersionSet, table: TableId) -> String {
    let version = versions.current();
    version.tables.get(&table.into()).map_or(String::new(), |table| table.name().to_string())
}
