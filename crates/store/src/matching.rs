//! What a population match is asked, and where its rows go.
//!
//! A [`Match`] counts, or sends batches of [`match_schema`] to a [`MatchSink`], which gives each thread
//! a [`MatchLane`] of its own. Must not know any backend.

use crate::Result;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use idmatch_model::{Pick, Side, Window};
use std::sync::Arc;

/// How a population is matched.
#[derive(Debug, Clone, Copy)]
pub struct MatchQuery {
    /// Which side the population's identifiers are of.
    pub by: Side,
    /// Which matches of a row are given.
    pub pick: Pick,
    /// Which dates count.
    pub window: Window,
}

/// What a match counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatchCounts {
    /// Population rows read.
    pub population: u64,
    /// Population rows with at least one match.
    pub matched: u64,
    /// Matches: what `SELECT count(*)` over the join gives.
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
    /// How often: requests to servers, or segments that were read, once for each range of the hash.
    pub requests: u64,
    /// Identifiers that were read so.
    pub keys: u64,
    /// Why it was chosen.
    pub why: String,
}

/// A population that has been matched; its rows can be read any number of times and
/// always describe the same point of the table.
pub trait Match: Send + Sync {
    /// What was counted.
    fn counts(&self) -> MatchCounts;

    /// How the identifiers of the population were read.
    fn plan(&self) -> Vec<PlanStep>;

    /// Sends the matches as batches of [`match_schema`], in no particular order; a
    /// population row's own matches go to one lane, newest first. Memory stays bounded.
    fn write(&self, sink: &dyn MatchSink) -> Result<()>;
}

/// Receives a match. Several threads may send at once, each through a lane of its own. An
/// error stops the match; lanes that were not finished are dropped.
pub trait MatchSink: Sync {
    /// A new lane.
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>>;
}

/// What one thread sends: its batches keep their order.
pub trait MatchLane {
    /// Takes the next batch.
    fn push(&mut self, batch: RecordBatch) -> Result<()>;

    /// There are no more.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// A function that is called with each batch, by several threads at once.
impl<F: Fn(RecordBatch) -> Result<()> + Sync> MatchSink for F {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        Ok(Box::new(Call(self)))
    }
}

struct Call<'a, F>(&'a F);

impl<F: Fn(RecordBatch) -> Result<()>> MatchLane for Call<'_, F> {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        (self.0)(batch)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// The columns of a match: the key's side, the answer's side, and `seen_at` as
/// `timestamp[ms, UTC]`.
pub fn match_schema(by: Side) -> SchemaRef {
    let seen_at = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new(by.column(), DataType::Utf8, false),
        Field::new(by.other().column(), DataType::Utf8, false),
        Field::new("seen_at", seen_at, false),
    ]))
}
