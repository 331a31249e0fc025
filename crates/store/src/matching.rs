//! The question of a population match, and the receiver of its rows.
//!
//! A [`Match`] counts, or sends batches of [`MatchQuery::schema`] to a [`MatchSink`], which gives each thread
//! a [`MatchLane`] of its own. Must not know any backend.

use crate::{Error, ErrorKind, Result};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use idmatch_model::{Pick, Side, Window};
use std::sync::Arc;

/// How a population is matched.
#[derive(Debug, Clone, Copy)]
pub struct MatchQuery {
    /// The side of the population's identifiers.
    pub by: Side,
    /// The matches of a row that are given.
    pub pick: Pick,
    /// Only observations in this window count.
    pub window: Window,
    /// Whether the match is positional: it tells population rows by their numbers. They count from 0 in the
    /// order of the source's batches, and every row counts, also null and malformed rows. In a positional
    /// match all rows may be malformed; without positions that is an error.
    pub positions: bool,
}

impl MatchQuery {
    /// The columns of the match: the columns of [`match_schema`]. A positional match has `row` as `UInt32` in
    /// place of the population's identifier.
    pub fn schema(&self) -> SchemaRef {
        if !self.positions {
            return match_schema(self.by);
        }
        let row = Field::new("row", DataType::UInt32, false);
        Arc::new(Schema::new(vec![row, text_field(self.by.other()), date_field()]))
    }

    /// The number of the first population row after a batch of `rows` rows that begins with the number
    /// `first_row`.
    ///
    /// # Errors
    /// `InvalidArgument` if the match is positional and the rows are more than `u32::MAX`.
    pub fn row_after(&self, first_row: u64, rows: usize) -> Result<u64> {
        let next = first_row.saturating_add(rows as u64);
        if self.positions && next > u64::from(u32::MAX) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "a population of a positional match has at most {} rows; match it in several parts",
                    u32::MAX
                ),
            ));
        }
        Ok(next)
    }
}

/// Why a population row has no match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmatchedReason {
    /// It is null.
    Null,
    /// It is no identifier: empty, too long or not UTF-8.
    Malformed,
    /// No visible row has it: it is absent, or the window, the retention or erasures hide all of its rows.
    NotFound,
}

/// The counts of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatchCounts {
    /// Population rows read.
    pub population: u64,
    /// Population rows with at least one match.
    pub matched: u64,
    /// Matches: the result of `SELECT count(*)` over the join.
    pub rows: u64,
}

impl std::ops::AddAssign for MatchCounts {
    fn add_assign(&mut self, other: MatchCounts) {
        self.population += other.population;
        self.matched += other.matched;
        self.rows += other.rows;
    }
}

/// A way in which identifiers of a population were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    /// The way.
    pub how: &'static str,
    /// The number of uses: requests to servers, or segments that were read, once for each range of the hash.
    pub requests: u64,
    /// Identifiers that were read in this way.
    pub keys: u64,
    /// The reason for the choice.
    pub why: String,
}

/// The requests to servers for a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// Pages of rows that were requested, each by one request.
    pub asked: u64,
    /// Pages that were answered.
    pub answered: u64,
    /// Further attempts for pages: retries, and requests to another node when one was slow.
    pub repeated: u64,
    /// Partitions that were requested. A partition counts each time.
    pub partitions_asked: u64,
    /// Partitions that answered.
    pub partitions_answered: u64,
    /// Most requests in flight.
    pub in_flight: u64,
    /// Whether a rate limit was set.
    pub is_rate_limited: bool,
}

impl std::ops::AddAssign for Requests {
    /// Adds the counts; the limits stay.
    fn add_assign(&mut self, other: Requests) {
        self.asked += other.asked;
        self.answered += other.answered;
        self.repeated += other.repeated;
        self.partitions_asked += other.partitions_asked;
        self.partitions_answered += other.partitions_answered;
    }
}

/// A population that has been matched; its rows can be read any number of times and
/// always describe the same point of the table.
pub trait Match: Send + Sync {
    /// The counts.
    fn counts(&self) -> MatchCounts;

    /// The ways in which the identifiers of the population were read.
    fn plan(&self) -> Vec<PlanStep>;

    /// The requests to servers; `None` where there are no servers.
    fn requests(&self) -> Option<Requests> {
        None
    }

    /// Sends the matches as batches of [`MatchQuery::schema`], in no particular order; a
    /// population row's own matches go to one lane, newest first. Memory stays bounded.
    fn write(&self, sink: &dyn MatchSink) -> Result<()>;

    /// Calls `take` with each population row that has no match, ascending. An error of `take` ends it.
    ///
    /// # Errors
    /// [`not_positional`] unless the match is positional; the error of `take`.
    fn unmatched(&self, take: &mut dyn FnMut(u32, UnmatchedReason) -> Result<()>) -> Result<()>;
}

/// The error of [`Match::unmatched`] for a match without positions.
pub fn not_positional() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        "only a positional match knows which population rows have no match; ask for positions",
    )
}

/// Receives a match. Several threads may send at once, each through a lane of its own. An
/// error stops the match; lanes that were not finished are dropped.
pub trait MatchSink: Sync {
    /// A new lane.
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>>;
}

/// Receives the batches of one thread, which keep their order.
pub trait MatchLane {
    /// Takes the next batch.
    fn push(&mut self, batch: RecordBatch) -> Result<()>;

    /// Ends the lane after its last batch.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// A function that is called with each batch, by several threads at once.
impl<F: Fn(RecordBatch) -> Result<()> + Sync> MatchSink for F {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        Ok(Box::new(FnLane(self)))
    }
}

/// A lane that calls a function with each batch.
struct FnLane<'a, F>(&'a F);

impl<F: Fn(RecordBatch) -> Result<()>> MatchLane for FnLane<'_, F> {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        (self.0)(batch)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// The columns of a match by identifiers: the key's side, the answer's side, and `seen_at` as
/// `timestamp[ms, UTC]`.
pub fn match_schema(by: Side) -> SchemaRef {
    Arc::new(Schema::new(vec![text_field(by), text_field(by.other()), date_field()]))
}

fn text_field(side: Side) -> Field {
    Field::new(side.column(), DataType::Utf8, false)
}

fn date_field() -> Field {
    Field::new("seen_at", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false)
}
