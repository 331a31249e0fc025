//! The result of a chain: its counts, its rows, and the population rows without a match.

use crate::carried::{Chunk, Level};
use crate::columns::failed;
use crate::fates::{Fate, Fates};
use crate::gather::{Gathered, HopRows};
use crate::hop::{Hop, HopCounts, JoinOptions};
use crate::{threads, unmatched};
use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::SchemaRef;
use idmatch_store::locks::Mutex;
use idmatch_store::{Call, MatchLane, MatchSink, Requests, Result, Stage, Timings};
use std::sync::Arc;

/// Columns of the first level before the carried columns: the identifier. In the levels of later hops the
/// number of the population row comes first.
const ORIGIN_COLUMNS: usize = 1;

/// A population that went through tables. Its rows can be read any number of times.
pub struct Joined {
    hops: Vec<Hop>,
    options: JoinOptions,
    schema: SchemaRef,
    counts: Vec<HopCounts>,
    /// The rows of the last hop.
    rows: HopRows,
    /// The population, if there are more hops than one; else it is the level of `rows`.
    population: Option<Level>,
    /// The fates of the population rows, and whether they tell rows outside the window from rows that are not
    /// in the table.
    fates: Mutex<(Fates, bool)>,
    /// The requests to servers that told these apart.
    told_by: Mutex<Option<Requests>>,
    matched: u64,
    timings: Arc<Timings>,
}

/// The counts of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinCounts {
    /// Population rows read.
    pub population: u64,
    /// Population rows that have a row of the last table.
    pub matched: u64,
    /// Matches: the result of `SELECT count(*)` over the joins.
    pub rows: u64,
    /// Rows of the result: `rows`, and the rows of unmatched population rows if they are kept.
    pub written: u64,
}

impl Joined {
    pub(crate) fn new(
        hops: Vec<Hop>,
        options: JoinOptions,
        schema: SchemaRef,
        counts: Vec<HopCounts>,
        (rows, population): (HopRows, Option<Level>),
        fates: Fates,
        timings: Arc<Timings>,
    ) -> Joined {
        // Lossless: there are few hops.
        let matched = fates.count(hops.len() as u8);
        let (fates, told_by) = (Mutex::new((fates, false)), Mutex::default());
        Joined { hops, options, schema, counts, rows, population, fates, told_by, matched, timings }
    }

    /// The counts of the chain.
    pub fn counts(&self) -> JoinCounts {
        let population = self.counts.first().map_or(0, |hop| hop.rows_in);
        let rows = self.counts.last().map_or(0, |hop| hop.rows);
        let kept = if self.options.keep_unmatched { population - self.matched } else { 0 };
        JoinCounts { population, matched: self.matched, rows, written: rows + kept }
    }

    /// The counts of each hop.
    pub fn hops(&self) -> &[HopCounts] {
        &self.counts
    }

    /// The requests to servers so far; `None` where there are no servers.
    pub fn requests(&self) -> Option<Requests> {
        let told_by = *self.told_by.lock();
        let all = self.counts.iter().map(|hop| hop.requests).chain([told_by]).flatten();
        all.reduce(|mut all, more| {
            all += more;
            all
        })
    }

    /// The columns of the result: the side of the population; with hops, `hop_N_...` for answers and dates of
    /// hops before the last; the side of the last answers, with `_2` where that is the population's;
    /// `seen_at`; and the carried columns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Sends the rows as batches of [`Joined::schema`], in no particular order. After one hop a population row's
    /// own rows go to one lane, newest first.
    ///
    /// # Errors
    /// The errors of the sink; `Io` and `Corrupt` if the temporary file cannot be read.
    pub fn write(&self, sink: &dyn MatchSink, call: &Call) -> Result<()> {
        let chunks = self.rows.level.chunks.len();
        let lost = if self.options.keep_unmatched { self.population().chunks.len() } else { 0 };
        let sink = &self.timings.sink(sink);
        let start = || Ok((self.timings.span(Stage::Carrying), sink.lane()?));
        let work = |(_, lane): &mut (_, Box<dyn MatchLane + '_>), task: usize| {
            let Some(mut reader) = self.rows.chunk(task, call)? else {
                let chunk = self.population().chunks.get(task - chunks);
                return chunk.map_or(Ok(()), |chunk| self.write_lost(chunk, lane.as_mut(), call));
            };
            while let Some(gathered) = reader.next(call)? {
                lane.push(self.batch(gathered)?)?;
            }
            Ok(())
        };
        threads::for_each(chunks + lost, start, work, |(_span, lane)| lane.finish())
    }

    /// Sends the population rows without a match, in order: the identifier, the reason, and the carried
    /// columns. The first call may match them again, to tell rows outside the window from rows not in the
    /// table.
    ///
    /// # Errors
    /// The errors of [`Joined::write`], and of a match.
    pub fn write_unmatched(&self, sink: &dyn MatchSink, call: &Call) -> Result<()> {
        {
            let call = &call.clone().timed(&self.timings).with_source_stage(Stage::Carrying);
            let mut fates = self.fates.lock();
            let (fates, are_told) = &mut *fates;
            if let (false, Some(first)) = (*are_told, self.hops.first()) {
                let asked = unmatched::tell_windows(first, self.population(), fates, call)?;
                *self.told_by.lock() = asked;
                *are_told = true;
            }
        }
        let _span = self.timings.span(Stage::Carrying);
        let sink = &self.timings.sink(sink);
        let schema = self.unmatched_schema();
        let mut lane = sink.lane()?;
        for chunk in &self.population().chunks {
            unmatched::each(chunk, &self.lost(chunk), call, &mut |picked, rows| {
                lane.push(unmatched::batch(&schema, picked, rows)?)
            })?;
        }
        lane.finish()
    }

    /// The columns of unmatched rows.
    pub fn unmatched_schema(&self) -> SchemaRef {
        let carried = self.population().fields.get(ORIGIN_COLUMNS..).unwrap_or_default();
        unmatched::schema(self.hops.first().map(|hop| hop.by), carried)
    }

    fn population(&self) -> &Level {
        self.population.as_ref().unwrap_or(&self.rows.level)
    }

    fn batch(&self, gathered: Gathered) -> Result<RecordBatch> {
        let Gathered { answers, dates, carried, .. } = gathered;
        let mut carried = carried.into_iter();
        if self.population.is_some() {
            // The numbers of population rows.
            carried.next();
        }
        let mut columns: Vec<ArrayRef> = carried.next().into_iter().collect();
        let users = self.population().fields.len().saturating_sub(ORIGIN_COLUMNS);
        let users: Vec<ArrayRef> = carried.by_ref().take(users).collect();
        // The remaining columns are of the hops between.
        columns.extend(carried);
        columns.extend([answers, dates]);
        columns.extend(users);
        RecordBatch::try_new(self.schema(), columns).map_err(failed)
    }

    /// The rows of a chunk that have no match. They are copied, so the lock is not held while a sink takes
    /// them.
    fn lost(&self, chunk: &Chunk) -> Vec<(usize, Fate)> {
        let fates = self.fates.lock();
        fates.0.lost(chunk, self.hops.len() as u8)
    }

    /// Writes the population rows of a chunk that have no match.
    fn write_lost(&self, chunk: &Chunk, lane: &mut dyn MatchLane, call: &Call) -> Result<()> {
        unmatched::each(chunk, &self.lost(chunk), call, &mut |picked, rows| {
            let mut picked = picked.into_iter();
            let mut columns: Vec<ArrayRef> = picked.next().into_iter().collect();
            let ours = self.schema.fields().len().saturating_sub(picked.len());
            for field in self.schema.fields().iter().take(ours).skip(columns.len()) {
                columns.push(new_null_array(field.data_type(), rows.len()));
            }
            columns.extend(picked);
            lane.push(RecordBatch::try_new(self.schema(), columns).map_err(failed)?)
        })
    }
}
