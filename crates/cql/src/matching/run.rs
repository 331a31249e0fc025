//! Runs a match: takes one batch of the population after another through `population`, `plan` and
//! `fetch` to `output`.

use super::fetch::{Fetch, MATCH_READ_TASKS};
use super::output::Output;
use super::plan::ReadCounts;
use super::population::BucketedPopulation;
use super::query_context::QueryContext;
use crate::client::Use;
use crate::client::request_counts::RequestCounts;
use crate::context::TableContext;
use idmatch_model::SeenAt;
use idmatch_store::{
    BatchSource, Call, Error, ErrorKind, JudgedPopulation, Match, MatchCounts, MatchQuery,
    MatchSink, PlanStep, Requests, Result, RowStates, Stage, Timings, UnmatchedReason,
    not_positional,
};
use std::sync::Arc;
use tokio::time::Instant;

/// The result of a match.
pub(crate) struct CqlMatch {
    counts: MatchCounts,
    output: Output,
    plan: Vec<PlanStep>,
    requests: Requests,
    timings: Arc<Timings>,
    /// The rows of each population batch, if the match is positional: two bits a row.
    states: Option<Vec<Arc<RowStates>>>,
}

impl CqlMatch {
    /// Reads the population and finds its matches. Memory: a batch of the population, and results
    /// up to a limit. Cost: requests for each bucket that has a key of the population, batch by
    /// batch.
    pub(crate) fn run(
        context: &Arc<TableContext>,
        source: &mut dyn BatchSource,
        (query, at): (MatchQuery, SeenAt),
        call: &Call,
    ) -> Result<CqlMatch> {
        call.check()?;
        let metadata =
            context.client.wait_unless(call, Use::Read, context.metadata_cache.current())?;
        let visible = metadata.visible_range(query.window, at);
        let query_context = QueryContext { context: Arc::clone(context), metadata, query, visible };
        let most = context.client.settings().match_memory;
        let output = Arc::new(Output::new(query, most));
        let (mut counts, mut read_counts) = (MatchCounts::default(), ReadCounts::default());
        let mut states = query.positions.then(Vec::new);
        let mut source = JudgedPopulation::new(source, query);
        let (timings, sent) = (call.timings(), Arc::new(RequestCounts::default()));
        loop {
            let buckets = context.buckets;
            let numbered = (query, counts.population);
            let (population, is_last) =
                BucketedPopulation::read(&mut source, numbered, (buckets, most), call)?;
            let BucketedPopulation { bucket_runs, rows, valid, states: batch_states } = population;
            let batch_states = batch_states.map(Arc::new);
            if let (Some(all), Some(states)) = (&mut states, &batch_states) {
                all.push(Arc::clone(states));
            }
            let output = (Arc::clone(&output), batch_states);
            let fetch = Fetch::new(query_context.clone(), bucket_runs, output, call);
            let (began, (busy_before, _)) = (Instant::now(), context.client.busy());
            let answered = context.client.wait_unless(call, Use::Read, fetch.run(&sent))?;
            let (busy, threads) = context.client.busy();
            let busy = busy.saturating_sub(busy_before);
            timings.add(Stage::Probing, answered.sorting);
            timings.add(Stage::Decoding, busy.saturating_sub(answered.sorting));
            timings.add(Stage::Waiting, (began.elapsed() * threads).saturating_sub(busy));
            let batch = answered.counts;
            read_counts += answered.read_counts;
            if batch.population != valid {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "a match of {} answered {} of {valid} population rows; match again",
                        context.what(),
                        batch.population
                    ),
                ));
            }
            counts += MatchCounts { population: rows, ..batch };
            if is_last {
                break;
            }
        }
        let output = Arc::into_inner(output).ok_or_else(|| {
            Error::new(ErrorKind::Io, "a request of this match has not ended; match again")
        })?;
        let plan = read_counts.steps(query_context.planner());
        let requests = requests_of(context, &sent)?;
        Ok(CqlMatch { counts, output, plan, requests, timings, states })
    }
}

/// The requests of a match. Fails unless all of them were answered.
fn requests_of(context: &TableContext, sent: &RequestCounts) -> Result<Requests> {
    let settings = context.client.settings();
    let requests = Requests {
        in_flight: settings.in_flight.min(MATCH_READ_TASKS) as u64,
        is_rate_limited: settings.max_requests_per_second.is_some(),
        ..sent.so_far()
    };
    check_answered(&requests, &context.what())?;
    Ok(requests)
}

/// Fails unless all pages and partitions that were asked have answered.
fn check_answered(requests: &Requests, what: &str) -> Result<()> {
    if (requests.asked, requests.partitions_asked)
        == (requests.answered, requests.partitions_answered)
    {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Corrupt,
        format!(
            "a match of {what} had {} of {} pages answered, of {} of {} partitions; match again",
            requests.answered,
            requests.asked,
            requests.partitions_answered,
            requests.partitions_asked
        ),
    ))
}

impl Match for CqlMatch {
    fn counts(&self) -> MatchCounts {
        self.counts
    }

    fn plan(&self) -> Vec<PlanStep> {
        self.plan.clone()
    }

    fn requests(&self) -> Option<Requests> {
        Some(self.requests)
    }

    fn write(&self, sink: &dyn MatchSink) -> Result<()> {
        let _span = self.timings.span(Stage::Decoding);
        let sink = self.timings.sink(sink);
        let mut lane = sink.lane()?;
        self.output.read(|batch| lane.push(batch))?;
        lane.finish()
    }

    fn unmatched(&self, take: &mut dyn FnMut(u32, UnmatchedReason) -> Result<()>) -> Result<()> {
        let states = self.states.as_ref().ok_or_else(not_positional)?;
        states.iter().try_for_each(|states| states.unmatched(take))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pages_and_partitions_must_have_answered() {
        let all = Requests {
            asked: 7,
            answered: 7,
            repeated: 2,
            partitions_asked: 3,
            partitions_answered: 3,
            ..Requests::default()
        };
        assert!(check_answered(&all, "table t").is_ok());
        assert!(check_answered(&Requests::default(), "table t").is_ok());
        for (requests, said) in [
            (Requests { answered: 6, ..all }, "6 of 7 pages answered, of 3 of 3 partitions"),
            (Requests { partitions_answered: 2, ..all }, "7 of 7 pages answered, of 2 of 3"),
            (Requests { answered: 8, ..all }, "8 of 7 pages"),
        ] {
            let error = check_answered(&requests, "table t").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            let text = error.to_string();
            assert!(text.contains("match of table t had") && text.contains(said), "{text}");
        }
    }
}
