//! Runs a match: takes one tranche of the population after another through `population`, `plan` and
//! `fetch` to `output`.

use super::fetch::Fetch;
use super::output::Output;
use super::plan::ReadCounts;
use super::population::Population;
use super::question::Question;
use crate::client::Use;
use crate::context::TableContext;
use idmatch_store::{
    BatchSource, Error, ErrorKind, Match, MatchCounts, MatchQuery, MatchSink, PlanStep, Result,
    UnmatchedReason, not_positional,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The result of a match.
pub(crate) struct CqlMatch {
    counts: MatchCounts,
    output: Output,
    plan: Vec<PlanStep>,
}

impl CqlMatch {
    /// Reads the population and finds its matches, unless `stop` is set before. Memory: a tranche
    /// of the population, and results up to a limit. Cost: requests for each bucket that has a key
    /// of the population, tranche by tranche.
    pub(crate) fn run(
        context: &Arc<TableContext>,
        stop: Option<&AtomicBool>,
        source: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<CqlMatch> {
        if query.positions {
            let text =
                "positional matches of servers are not implemented yet; match without positions";
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let metadata =
            context.client.wait_unless(stop, Use::Read, context.metadata_cache.current())?;
        let visible = metadata.visible(query.window);
        let question = Question { context: Arc::clone(context), metadata, query, visible };
        let most = context.client.settings().match_memory;
        let output = Arc::new(Output::new(query.by, most));
        let (mut counts, mut read_counts) = (MatchCounts::default(), ReadCounts::default());
        loop {
            let buckets = question.metadata.definition.buckets;
            let (population, is_last) = Population::read(source, buckets, most)?;
            let Population { sections, rows, valid } = population;
            let fetch = Fetch::new(question.clone(), sections, Arc::clone(&output));
            let answered = context.client.wait_unless(stop, Use::Read, fetch.run())?;
            let tranche = answered.counts;
            read_counts += answered.read_counts;
            if tranche.population != valid {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "a match of {} answered {} of {valid} population rows; match again",
                        context.what(),
                        tranche.population
                    ),
                ));
            }
            counts += MatchCounts { population: rows, ..tranche };
            if is_last {
                break;
            }
        }
        let output = Arc::into_inner(output).ok_or_else(|| {
            Error::new(ErrorKind::Io, "a request of this match has not ended; match again")
        })?;
        output.finish()?;
        let plan = read_counts.steps(question.planner());
        Ok(CqlMatch { counts, output, plan })
    }
}

impl Match for CqlMatch {
    fn counts(&self) -> MatchCounts {
        self.counts
    }

    fn plan(&self) -> Vec<PlanStep> {
        self.plan.clone()
    }

    fn write(&self, sink: &dyn MatchSink) -> Result<()> {
        let mut lane = sink.lane()?;
        self.output.read(|batch| lane.push(batch))?;
        lane.finish()
    }

    fn unmatched(&self, _: &mut dyn FnMut(u32, UnmatchedReason) -> Result<()>) -> Result<()> {
        Err(not_positional())
    }
}
