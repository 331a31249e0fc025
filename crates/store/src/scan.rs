//! Reading all of a table: each observation that is to be seen, once.
//!
//! A table divides its ids into [`PARTS`] parts in a way of its own, which never changes: a scan meets
//! the parts about one after another. So two readings, or two tables, can be compared part by part,
//! and a repeated copy skips the parts that are equal. Must not know the use of the rows.

use crate::{Error, ErrorKind, MatchLane, MatchSink, Result, match_schema};
use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
use arrow_schema::SchemaRef;
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

/// All observations of a table, to be read any number of times.
pub trait Scan: Send + Sync {
    /// The part that an id is in: less than [`PARTS`], and the same for every scan of the table.
    fn part(&self, id: &str) -> usize;

    /// Sends the observations of some parts as batches of [`match_schema`] by id, in no particular
    /// order, each once: with `keep="last"` the newest of each pair. Memory stays bounded.
    fn read(&self, parts: &Parts, sink: &dyn MatchSink) -> Result<()>;
}

/// Rows on their way into a batch of [`match_schema`].
pub struct RowBatch {
    schema: SchemaRef,
    keys: StringBuilder,
    values: StringBuilder,
    dates: Vec<i64>,
    bytes: usize,
    /// Rows of the last batch, and the bytes of its keys and of its values: the next will be about as large.
    usual: (usize, usize, usize),
}

impl RowBatch {
    /// An empty batch, whose keys are of this side.
    pub fn new(by: Side) -> RowBatch {
        let (keys, values) = (StringBuilder::new(), StringBuilder::new());
        let (dates, usual) = (Vec::new(), (0, 0, 0));
        RowBatch { schema: match_schema(by), keys, values, dates, bytes: 0, usual }
    }

    /// Adds a row; gives the batch when it is full.
    pub fn push(&mut self, key: &str, value: &str, seen_at: SeenAt) -> Result<Option<RecordBatch>> {
        if self.dates.is_empty() {
            let (rows, of_keys, of_values) = self.usual;
            self.keys = StringBuilder::with_capacity(rows, of_keys);
            self.values = StringBuilder::with_capacity(rows, of_values);
            self.dates.reserve(rows);
        }
        self.keys.append_value(key);
        self.values.append_value(value);
        self.dates.push(seen_at.millis_i64());
        self.bytes += key.len() + value.len();
        let is_full = self.dates.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES;
        if is_full { self.take() } else { Ok(None) }
    }

    /// Takes the rows of an unfinished batch; `None` when there are none.
    pub fn take(&mut self) -> Result<Option<RecordBatch>> {
        if self.dates.is_empty() {
            return Ok(None);
        }
        self.bytes = 0;
        self.usual = (self.dates.len(), text_bytes(&self.keys), text_bytes(&self.values));
        let dates = TimestampMillisecondArray::from(std::mem::take(&mut self.dates));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.keys.finish()),
            Arc::new(self.values.finish()),
            Arc::new(dates.with_timezone("UTC")),
        ];
        let batch = RecordBatch::try_new(self.schema.clone(), columns);
        batch.map(Some).map_err(|e| {
            Error::with_source(ErrorKind::InvalidArgument, "cannot build a batch of rows", e)
        })
    }
}

fn text_bytes(column: &StringBuilder) -> usize {
    column.values_slice().len()
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
