//! Exact numbers of observations, which take a read of the table.

use crate::{Call, Columns, Result, ScanQuery, ScanRanges, TableSnapshot};
use arrow_array::RecordBatch;
use idmatch_model::{Period, Window};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts the visible observations of a table, or only the visible observations that another retention would
/// hide. With `keep="last"` a pair has one. It reads one direction of the table; it reads nothing for a
/// retention that is at least as long as the table's.
///
/// # Errors
/// `InvalidArgument` for a retention of less than a day, and the errors of [`TableSnapshot::scan`].
pub fn count(table: &dyn TableSnapshot, hidden_by: Option<&Period>, call: &Call) -> Result<u64> {
    let mut window = Window::ALL;
    if let Some(retention) = hidden_by {
        retention.check_retention()?;
        let (_, now) = table.version();
        let oldest = retention.before(now);
        if table.options().retention.as_ref().is_some_and(|there| oldest <= there.before(now)) {
            return Ok(0);
        }
        window = Window::new(None, Some(oldest))?;
    }
    let columns = Columns { key: false, value: false, seen_at: false };
    let rows = AtomicU64::new(0);
    let sink = |batch: RecordBatch| {
        rows.fetch_add(batch.num_rows() as u64, Relaxed);
        Ok(())
    };
    table.scan(&ScanRanges::all(), ScanQuery { window, columns }, &sink, call)?;
    Ok(rows.into_inner())
}
