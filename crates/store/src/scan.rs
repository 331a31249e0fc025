//! Reading all of a table: each visible observation, once.
//!
//! A table divides its ids into [`SCAN_RANGES`] scan ranges in a way of its own, which never changes. A scan
//! meets the ranges about one after another. So two readings, or two tables, can be compared range by range,
//! and a repeated copy skips the ranges that are equal. Must not know the use of the rows.

use crate::{Error, ErrorKind, MatchLane, MatchQuery, Result, match_schema};
use arrow_array::{
    ArrayRef, RecordBatch, RecordBatchOptions, StringArray, TimestampMillisecondArray, UInt32Array,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use idmatch_model::{SeenAt, Side, Window};
use std::mem;
use std::sync::Arc;

/// The number of scan ranges that the ids of every table are divided into.
pub const SCAN_RANGES: usize = 1 << 12;

/// A batch is sent when it has this many rows, or bytes of identifiers.
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 1 << 20;

/// A set of scan ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanRanges(Vec<bool>);

impl ScanRanges {
    /// All scan ranges.
    pub fn all() -> ScanRanges {
        ScanRanges(vec![true; SCAN_RANGES])
    }

    /// The scan ranges for which `is_in` is true.
    pub fn of(is_in: impl Fn(usize) -> bool) -> ScanRanges {
        ScanRanges((0..SCAN_RANGES).map(is_in).collect())
    }

    /// Whether a scan range is among them.
    #[inline]
    pub fn contains(&self, range: usize) -> bool {
        self.0.get(range).copied().unwrap_or_default()
    }

    /// The number of scan ranges.
    pub fn len(&self) -> usize {
        self.0.iter().filter(|is_in| **is_in).count()
    }

    /// Whether there are no scan ranges.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The choice of dates and columns of a scan.
#[derive(Debug, Clone, Copy)]
pub struct ScanQuery {
    /// Only observations in this window count.
    pub window: Window,
    /// The columns of the batches. Rows that look alike in these columns stay separate rows.
    pub columns: Columns,
}

impl From<Window> for ScanQuery {
    /// All columns.
    fn from(window: Window) -> ScanQuery {
        ScanQuery { window, columns: Columns::ALL }
    }
}

/// Some of the columns of [`match_schema`], in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// The key: the id in a scan.
    pub key: bool,
    /// The answer: the partner_id in a scan.
    pub value: bool,
    /// The date.
    pub seen_at: bool,
}

impl Columns {
    /// All columns.
    pub const ALL: Columns = Columns { key: true, value: true, seen_at: true };

    /// Their fields, for keys of this side.
    pub fn schema(self, by: Side) -> SchemaRef {
        if self == Columns::ALL {
            return match_schema(by);
        }
        let wanted = [self.key, self.value, self.seen_at];
        let all = match_schema(by);
        let fields = all.fields().iter().zip(wanted).filter(|(_, is_wanted)| *is_wanted);
        Arc::new(Schema::new(fields.map(|(field, _)| Arc::clone(field)).collect::<Vec<_>>()))
    }
}

/// Rows on their way into a batch of some columns of [`match_schema`], or of a positional match.
pub struct RowBatch {
    schema: SchemaRef,
    keys: KeyColumn,
    values: Option<TextColumn>,
    dates: Option<Vec<i64>>,
    rows: usize,
    /// A batch is full with this many rows, or bytes of identifiers.
    limits: (usize, usize),
}

/// The first column.
enum KeyColumn {
    Text(TextColumn),
    /// The numbers of population rows.
    Positions(Vec<u32>),
    Unwanted,
}

/// A text column being built. Its bytes are checked to be UTF-8 once for a whole batch.
#[derive(Default)]
struct TextColumn {
    text: Vec<u8>,
    ends: Vec<i32>,
}

impl RowBatch {
    /// An empty batch of these columns, whose keys are of this side.
    pub fn new(by: Side, columns: Columns) -> RowBatch {
        RowBatch::with_limits((by, columns), BATCH_ROWS, BATCH_BYTES)
    }

    /// An empty batch that is full with this many rows, or bytes of identifiers (less than 2 GiB).
    pub fn with_limits((by, columns): (Side, Columns), rows: usize, bytes: usize) -> RowBatch {
        RowBatch {
            schema: columns.schema(by),
            keys: if columns.key {
                KeyColumn::Text(TextColumn::default())
            } else {
                KeyColumn::Unwanted
            },
            values: columns.value.then(TextColumn::default),
            dates: columns.seen_at.then(Vec::new),
            rows: 0,
            limits: (rows, bytes),
        }
    }

    /// An empty batch for the rows of a query: a positional query has numbers for keys.
    pub fn of_query(query: &MatchQuery, rows: usize, bytes: usize) -> RowBatch {
        let batch = RowBatch::with_limits((query.by, Columns::ALL), rows, bytes);
        match query.positions {
            true => {
                RowBatch { schema: query.schema(), keys: KeyColumn::Positions(Vec::new()), ..batch }
            }
            false => batch,
        }
    }

    /// Adds a row; returns the batch when it is full.
    pub fn push(&mut self, key: &str, value: &str, seen_at: SeenAt) -> Result<Option<RecordBatch>> {
        let is_full = self.push_with(
            |text| text.extend_from_slice(key.as_bytes()),
            |text| text.extend_from_slice(value.as_bytes()),
            seen_at,
        );
        if is_full { self.take() } else { Ok(None) }
    }

    /// Adds a row. `key` and `value` append their bytes to a buffer, if the column is wanted. Returns whether
    /// the batch is full.
    #[inline]
    pub fn push_with(
        &mut self,
        key: impl FnOnce(&mut Vec<u8>),
        value: impl FnOnce(&mut Vec<u8>),
        seen_at: SeenAt,
    ) -> bool {
        let mut bytes = 0;
        if let KeyColumn::Text(keys) = &mut self.keys {
            bytes = keys.push(key);
        }
        self.push_value(value, seen_at, bytes)
    }

    /// Adds a row of a positional match: the number of its population row, and a value that is appended to a
    /// buffer. Returns whether the batch is full.
    #[inline]
    pub fn push_position(
        &mut self,
        row: u32,
        value: impl FnOnce(&mut Vec<u8>),
        seen_at: SeenAt,
    ) -> bool {
        if let KeyColumn::Positions(rows) = &mut self.keys {
            rows.push(row);
        }
        self.push_value(value, seen_at, 0)
    }

    #[inline]
    fn push_value(
        &mut self,
        value: impl FnOnce(&mut Vec<u8>),
        seen_at: SeenAt,
        key_bytes: usize,
    ) -> bool {
        let mut bytes = key_bytes;
        if let Some(values) = &mut self.values {
            bytes += values.push(value);
        }
        if let Some(dates) = &mut self.dates {
            dates.push(seen_at.millis_i64());
        }
        self.rows += 1;
        self.rows >= self.limits.0 || bytes >= self.limits.1
    }

    /// Takes the rows of an unfinished batch; `None` when there are none.
    ///
    /// # Errors
    /// `Corrupt` if a key or value is not UTF-8.
    pub fn take(&mut self) -> Result<Option<RecordBatch>> {
        let rows = mem::take(&mut self.rows);
        if rows == 0 {
            return Ok(None);
        }
        let mut columns = || -> Result<RecordBatch, ArrowError> {
            let mut columns: Vec<ArrayRef> = Vec::new();
            match &mut self.keys {
                KeyColumn::Text(keys) => columns.push(Arc::new(keys.take()?)),
                KeyColumn::Positions(numbers) => {
                    columns.push(Arc::new(UInt32Array::from(mem::take(numbers))))
                }
                KeyColumn::Unwanted => {}
            }
            if let Some(values) = &mut self.values {
                columns.push(Arc::new(values.take()?));
            }
            if let Some(dates) = &mut self.dates {
                let dates = TimestampMillisecondArray::from(mem::take(dates));
                columns.push(Arc::new(dates.with_timezone("UTC")));
            }
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
        };
        columns().map(Some).map_err(|e| {
            Error::with_source(ErrorKind::Corrupt, "stored identifiers are not UTF-8", e)
        })
    }
}

impl TextColumn {
    /// Returns the number of bytes in the column.
    #[inline]
    fn push(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> usize {
        append(&mut self.text);
        self.ends.push(self.text.len() as i32);
        self.text.len()
    }

    fn take(&mut self) -> Result<StringArray, ArrowError> {
        let offsets: Vec<i32> = std::iter::once(0).chain(mem::take(&mut self.ends)).collect();
        let text = Buffer::from_vec(mem::take(&mut self.text));
        StringArray::try_new(OffsetBuffer::new(ScalarBuffer::from(offsets)), text, None)
    }
}

/// Rows by id on their way to one lane.
pub struct RowLane<'s> {
    lane: Box<dyn MatchLane + 's>,
    rows: RowBatch,
}

impl<'s> RowLane<'s> {
    /// Rows for a lane, with these columns.
    pub fn new(lane: Box<dyn MatchLane + 's>, columns: Columns) -> RowLane<'s> {
        RowLane { lane, rows: RowBatch::new(Side::Id, columns) }
    }

    /// Adds a row.
    pub fn push(&mut self, id: &str, partner_id: &str, seen_at: SeenAt) -> Result<()> {
        match self.rows.push(id, partner_id, seen_at)? {
            Some(batch) => self.lane.push(batch),
            None => Ok(()),
        }
    }

    /// Sends the last batch and ends the lane.
    pub fn finish(mut self) -> Result<()> {
        if let Some(batch) = self.rows.take()? {
            self.lane.push(batch)?;
        }
        self.lane.finish()
    }
}
