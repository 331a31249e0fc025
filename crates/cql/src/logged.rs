//! The log of operations that take long: when each began, how it ended, and how long it took. The caller
//! gets the text of an error; the log has its kind. Must not know what the operations do.

use idmatch_model::TableName;
use idmatch_store::Result;
use tokio::time::Instant;
use tracing::info;

/// Does something, and logs its begin and its end, with the rows of its result where these are counted.
pub(crate) fn logged<T>(
    operation: &'static str,
    table: &TableName,
    rows: impl FnOnce(&T) -> Option<u64>,
    run: impl FnOnce() -> Result<T>,
) -> Result<T> {
    info!(operation, %table, "operation began");
    let began = Instant::now();
    let outcome = run();
    let ended = outcome.as_ref().map_or_else(|e| e.kind().code(), |_| "done");
    let rows = outcome.as_ref().ok().and_then(rows);
    info!(operation, %table, outcome = ended, rows, ms = millis(began), "operation ended");
    outcome
}

/// The rows of a result that has none.
pub(crate) fn no_rows<T>(_: &T) -> Option<u64> {
    None
}

/// Milliseconds since then.
pub(crate) fn millis(began: Instant) -> u64 {
    // Lossless for half a billion years.
    began.elapsed().as_millis() as u64
}
