//! The rows: each is a function of its number alone.

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray};
use idmatch_store::{BatchSource, Error, ErrorKind, Result, SourceBatch};
use std::sync::Arc;

const BATCH_ROWS: u64 = 1 << 16;
/// Dates begin here, a second apart, and begin anew after a year.
const FIRST_DATE_MS: u64 = 1_730_000_000_000;
const YEAR_SECONDS: u64 = 365 * 86_400;

/// The id of a row: 32 hex digits. A tenth of the rows have that of an earlier one.
pub(crate) fn id(row: u64) -> String {
    let row = if row % 10 == 9 { row / 2 } else { row };
    format!("{:016x}{:016x}", mixed(row), mixed(!row))
}

/// The partner_id of a row: a number.
pub(crate) fn partner_id(row: u64) -> String {
    mixed(row ^ (1 << 63)).to_string()
}

/// As SplitMix64 does it.
fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Some rows, as batches.
pub(crate) struct Generated {
    next: u64,
    end: u64,
}

impl Generated {
    pub(crate) fn new(first: u64, end: u64) -> Generated {
        Generated { next: first, end }
    }
}

impl BatchSource for Generated {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let rows = self.next..self.end.min(self.next + BATCH_ROWS);
        if rows.is_empty() {
            return Ok(None);
        }
        self.next = rows.end;
        let date = |row: u64| (FIRST_DATE_MS + row % YEAR_SECONDS * 1_000) as i64;
        let dates = TimestampMillisecondArray::from_iter_values(rows.clone().map(date));
        let columns = [
            ("id", Arc::new(StringArray::from_iter_values(rows.clone().map(id))) as ArrayRef),
            ("partner_id", Arc::new(StringArray::from_iter_values(rows.map(partner_id)))),
            ("seen_at", Arc::new(dates.with_timezone("UTC"))),
        ];
        let batch = RecordBatch::try_from_iter(columns)
            .map_err(|e| Error::with_source(ErrorKind::Source, "the rows cannot be made", e))?;
        Ok(Some(SourceBatch { source: "generated".into(), first_row: 1, batch }))
    }
}
