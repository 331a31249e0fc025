//! Reading all of a table: each observation that is to be seen, once.
//!
//! A table divides its ids into [`PARTS`] parts in a way of its own, which never changes: a scan meets
//! the parts about one after another. So two readings, or two tables, can be compared part by part,
//! and a repeated copy skips the parts that are equal. Must not know the use of the rows.

use crate::{Error, ErrorKind, MatchLane, MatchQuery, Result, match_schema};
use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, SchemaRef};
use idmatch_model::{SeenAt, Side};
use std::sync::Arc;

/// How many parts the ids of every table are divided into.
pub const PARTS: usize = 1 << 12;

/// A batch is sent when it has this many rows, or bytes of identifiers.
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 1 << 20;

/// Some of the parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts(Vec<bool>);

impl Parts {
    /// All of them.
    pub fn all() -> Parts {
        Parts(vec![true; PARTS])
    }

    /// Those for which `is_in` says so.
    pub fn of(is_in: impl Fn(usize) -> bool) -> Parts {
        Parts((0..PARTS).map(is_in).collect())
    }

    /// Whether a part is among them.
    #[inline]
    pub fn contains(&self, part: usize) -> bool {
        self.0.get(part).copied().unwrap_or_default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().filter(|is_in| **is_in).count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Rows on their way into a batch of [`match_schema`], or of a positional match.
pub struct RowBatch {
    schema: SchemaRef,
    keys: TextColumn,
    /// The numbers of population rows, in place of keys.
    positions: Option<Vec<u32>>,
    values: TextColumn,
    dates: Vec<i64>,
    /// A batch is full with this many rows, or bytes of identifiers.
    limits: (usize, usize),
}

/// A text column being built. Its bytes are checked to be UTF-8 once for a whole batch.
#[derive(Default)]
struct TextColumn {
    text: Vec<u8>,
    ends: Vec<i32>,
}

impl RowBatch {
    /// An empty batch, whose keys are of this side.
    pub fn new(by: Side) -> RowBatch {
        RowBatch::with_limits(by, BATCH_ROWS, BATCH_BYTES)
    }

    /// The same for batches of up to this many rows, or bytes of identifiers: less than 2 GiB.
    pub fn with_limits(by: Side, rows: usize, bytes: usize) -> RowBatch {
        let (keys, values) = (TextColumn::default(), TextColumn::default());
        let (schema, limits) = (match_schema(by), (rows, bytes));
        RowBatch { schema, keys, positions: None, values, dates: Vec::new(), limits }
    }

    /// The same for the rows of a query: a positional one has numbers for keys.
    pub fn of_query(query: &MatchQuery, rows: usize, bytes: usize) -> RowBatch {
        let positions = query.positions.then(Vec::new);
        let batch = RowBatch::with_limits(query.by, rows, bytes);
        RowBatch { schema: query.schema(), positions, ..batch }
    }

    /// Adds a row; gives the batch when it is full.
    pub fn push(&mut self, key: &str, value: &str, seen_at: SeenAt) -> Result<Option<RecordBatch>> {
        let is_full = self.push_with(
            |text| text.extend_from_slice(key.as_bytes()),
            |text| text.extend_from_slice(value.as_bytes()),
            seen_at,
        );
        if is_full { self.take() } else { Ok(None) }
    }

    /// Adds a row whose key and value are appended to a buffer; says whether the batch is full.
    #[inline]
    pub fn push_with(
        &mut self,
        key: impl FnOnce(&mut Vec<u8>),
        value: impl FnOnce(&mut Vec<u8>),
        seen_at: SeenAt,
    ) -> bool {
        self.keys.push(key);
        self.push_value(value, seen_at)
    }

    /// Adds a row of a positional match: the number of its population row, and a value that is appended to a
    /// buffer; says whether the batch is full.
    #[inline]
    pub fn push_position(
        &mut self,
        row: u32,
        value: impl FnOnce(&mut Vec<u8>),
        seen_at: SeenAt,
    ) -> bool {
        if let Some(rows) = &mut self.positions {
            rows.push(row);
        }
        self.push_value(value, seen_at)
    }

    #[inline]
    fn push_value(&mut self, value: impl FnOnce(&mut Vec<u8>), seen_at: SeenAt) -> bool {
        self.values.push(value);
        self.dates.push(seen_at.millis_i64());
        let (rows, bytes) = self.limits;
        self.dates.len() >= rows || self.keys.text.len() + self.values.text.len() >= bytes
    }

    /// Takes the rows of an unfinished batch; `None` when there are none.
    ///
    /// # Errors
    /// `Corrupt` if a key or value is not UTF-8.
    pub fn take(&mut self) -> Result<Option<RecordBatch>> {
        if self.dates.is_empty() {
            return Ok(None);
        }
        let next = Vec::with_capacity(self.dates.len());
        let dates = std::mem::replace(&mut self.dates, next);
        let columns = || -> Result<RecordBatch, ArrowError> {
            let dates = TimestampMillisecondArray::from(dates).with_timezone("UTC");
            let keys: ArrayRef = match &mut self.positions {
                Some(rows) => {
                    let next = Vec::with_capacity(rows.len());
                    Arc::new(UInt32Array::from(std::mem::replace(rows, next)))
                }
                None => Arc::new(self.keys.take()?),
            };
            let columns = vec![keys, Arc::new(self.values.take()?), Arc::new(dates)];
            RecordBatch::try_new(self.schema.clone(), columns)
        };
        columns().map(Some).map_err(|e| {
            Error::with_source(ErrorKind::Corrupt, "stored identifiers are not UTF-8", e)
        })
    }
}

impl TextColumn {
    #[inline]
    fn push(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        append(&mut self.text);
        self.ends.push(self.text.len() as i32);
    }

    fn take(&mut self) -> Result<StringArray, ArrowError> {
        let offsets: Vec<i32> = std::iter::once(0).chain(self.ends.drain(..)).collect();
        // The next batch is about as large.
        let text = Vec::with_capacity(self.text.len());
        let text = Buffer::from_vec(std::mem::replace(&mut self.text, text));
        StringArray::try_new(OffsetBuffer::new(ScalarBuffer::from(offsets)), text, None)
    }
}

/// Rows by id on their way to one lane.
pub struct RowLane<'s> {
    lane: Box<dyn MatchLane + 's>,
    rows: RowBatch,
}

impl<'s> RowLane<'s> {
    /// Rows for a lane.
    pub fn new(lane: Box<dyn MatchLane + 's>) -> RowLane<'s> {
        RowLane { lane, rows: RowBatch::new(Side::Id) }
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
