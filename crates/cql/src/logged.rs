//! The log of operations that take long: when each began, how it ended, and how long it took. The caller
//! gets the text of an error; the log has its kind. Must not know what the operations do.

use idmatch_model::TableName;
use idmatch_store::{Finding, Result};
use tokio::time::Instant;
use tracing::info;

/// The figures of a result that the log shows. They are counted in any case.
#[derive(Debug, Default)]
pub(crate) struct ResultCounts {
    pub(crate) rows: Option<u64>,
    pub(crate) findings: Option<usize>,
}

impl ResultCounts {
    pub(crate) fn of_rows(rows: u64) -> ResultCounts {
        ResultCounts { rows: Some(rows), ..ResultCounts::default() }
    }

    pub(crate) fn of_findings(findings: &[Finding]) -> ResultCounts {
        ResultCounts { findings: Some(findings.len()), ..ResultCounts::default() }
    }
}

/// Runs an operation, and logs its begin and its end, with figures of its result.
pub(crate) fn logged<T>(
    operation: &'static str,
    table: &TableName,
    figures: impl FnOnce(&T) -> ResultCounts,
    run: impl FnOnce() -> Result<T>,
) -> Result<T> {
    info!(operation, %table, "operation began");
    let began = Instant::now();
    let outcome = run();
    let ended = outcome.as_ref().map_or_else(|e| e.kind().code(), |_| "done");
    let ResultCounts { rows, findings } = outcome.as_ref().map(figures).unwrap_or_default();
    info!(operation, %table, outcome = ended, rows, findings, ms = millis(began), "operation ended");
    outcome
}

/// The milliseconds since `began`.
pub(crate) fn millis(began: Instant) -> u64 {
    // Lossless for half a billion years.
    began.elapsed().as_millis() as u64
}
