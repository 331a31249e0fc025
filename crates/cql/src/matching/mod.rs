//! Joins a population with a table in the servers.
//!
//! 1. [`population`]: identifiers are read in tranches that fit in memory, and divided into sections, each for
//!    some buckets; the keys of a section are ordered, each once, when its turn comes.
//! 2. [`plan`]: each bucket's keys become requests: for one key, for a list of keys, or for the whole bucket,
//!    whichever costs less.
//! 3. [`fetch`]: so many requests at once as is allowed; rows meet the keys in order, and become answers.
//! 4. [`output`]: answers become Arrow batches, which wait in memory and then in a temporary file: the
//!    servers go on to change, and a match is always the one that was counted.
//!
//! Invariant: every population row is answered by exactly one request, or the match is an error.

mod fetch;
mod output;
mod plan;
mod population;

use crate::client::Use;
use crate::context::Handle;
use crate::schema::metadata_cache::{Known, Visible};
use fetch::Fetch;
use idmatch_store::{
    BatchSource, Error, ErrorKind, Match, MatchCounts, MatchQuery, MatchSink, PlanStep, Result,
};
use output::Output;
use plan::{Chooser, Tally};
use population::Population;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A population that was matched.
pub(crate) struct CqlMatch {
    counts: MatchCounts,
    output: Output,
    plan: Vec<PlanStep>,
}

/// What is asked, and what is known while it is answered.
#[derive(Clone)]
struct Question {
    handle: Arc<Handle>,
    known: Arc<Known>,
    query: MatchQuery,
    visible: Visible,
}

impl Question {
    fn chooser(&self) -> Chooser<'_> {
        let (reads, rows) =
            (self.handle.client.settings().match_reads, self.handle.bucket_rows(self.query.by));
        Chooser { reads, rows }
    }
}

impl CqlMatch {
    /// Reads the population and finds its matches, unless `stop` is set before. Memory: a tranche of the
    /// population, and results up to a bound. Cost: requests for each bucket that the population falls
    /// in, tranche by tranche.
    pub(crate) fn run(
        handle: &Arc<Handle>,
        stop: Option<&AtomicBool>,
        source: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<CqlMatch> {
        let known = handle.client.wait_unless(stop, Use::Read, handle.state.current())?;
        let visible = known.visible(query.window);
        let question = Question { handle: Arc::clone(handle), known, query, visible };
        let most = handle.client.settings().match_memory;
        let output = Arc::new(Output::new(query.by, most));
        let (mut counts, mut tally) = (MatchCounts::default(), Tally::default());
        loop {
            let buckets = question.known.definition.buckets;
            let (population, is_last) = Population::read(source, buckets, most)?;
            let Population { sections, rows, valid } = population;
            let fetch = Fetch::new(question.clone(), sections, Arc::clone(&output));
            let answered = handle.client.wait_unless(stop, Use::Read, fetch.run())?;
            let tranche = answered.counts;
            tally += answered.tally;
            if tranche.population != valid {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "a match of {} answered {} of {valid} population rows; match again",
                        handle.what(),
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
        let plan = tally.steps(question.chooser());
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
}
