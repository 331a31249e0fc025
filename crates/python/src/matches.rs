//! Matches of populations, for Python: with one table, or with several in turn.

use crate::errors::{OrRaise, raise};
use crate::interrupt::{interruptible, uninterrupted};
use crate::process::Own;
use crate::raised::Raised;
use crate::rows::{RowSource, Rows};
use crate::sources::{PySource, finish};
use crate::table_reader::TableReader;
use crate::tables::Table;
use crate::values::{pick, side, window};
use arrow_schema::SchemaRef;
use idmatch_join::{Hop, JoinOptions, Joined, join};
use idmatch_model::{Side, TableName};
use idmatch_store::{
    Call, CallKind, Calls, Error, ErrorKind, MatchQuery, MatchSink, PlanStep, Result, Stage,
    Timings, match_schema,
};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Fewer pairs than this are read before a check for Ctrl-C would come.
const SHORT_ROWS: u64 = 10_000;

/// A step of a plan: how, requests, keys, why.
type PlanRow = (&'static str, u64, u64, String);

/// The requests to servers: pages requested, answered, repeated; partitions requested, answered; the most in
/// flight, and whether their rate is limited.
type AskedOfServers = (u64, u64, u64, u64, u64, u64, bool);

/// A question to a table: its name, if it is not the first table; by, most matches of a row, since, until.
type GivenHop = (Option<String>, String, Option<u32>, Option<i64>, Option<i64>);

/// A matched population.
#[pyclass(frozen, module = "idmatch._core")]
pub(crate) struct Match {
    matched: Own<Matched>,
    calls: Arc<Calls>,
    timings: Arc<Timings>,
}

enum Matched {
    Pairs(MatchedPairs),
    Joined(Arc<Joined>),
}

/// A match of pairs alone.
#[derive(Clone)]
struct MatchedPairs {
    matched: Arc<dyn idmatch_store::Match>,
    by: Side,
}

impl RowSource for MatchedPairs {
    fn schema(&self) -> SchemaRef {
        match_schema(self.by)
    }

    fn count(&self) -> Option<u64> {
        Some(self.matched.counts().rows)
    }

    fn is_short(&self) -> bool {
        self.matched.counts().rows < SHORT_ROWS
    }

    fn write(&self, sink: &dyn MatchSink, _: &Call) -> Result<()> {
        self.matched.write(sink)
    }
}

impl RowSource for Arc<Joined> {
    fn schema(&self) -> SchemaRef {
        self.as_ref().schema()
    }

    fn count(&self) -> Option<u64> {
        Some(self.counts().written)
    }

    fn write(&self, sink: &dyn MatchSink, call: &Call) -> Result<()> {
        self.as_ref().write(sink, call)
    }
}

/// The population rows that have no match.
struct Unmatched(Arc<Joined>);

impl RowSource for Unmatched {
    fn schema(&self) -> SchemaRef {
        self.0.unmatched_schema()
    }

    fn count(&self) -> Option<u64> {
        let counts = self.0.counts();
        Some(counts.population - counts.matched)
    }

    fn write(&self, sink: &dyn MatchSink, call: &Call) -> Result<()> {
        self.0.write_unmatched(sink, call)
    }
}

#[pymethods]
impl Match {
    #[getter]
    fn population(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(match self.matched.get(py)?.as_ref() {
            Matched::Pairs(pairs) => pairs.matched.counts().population,
            Matched::Joined(joined) => joined.counts().population,
        })
    }

    #[getter]
    fn matched(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(match self.matched.get(py)?.as_ref() {
            Matched::Pairs(pairs) => pairs.matched.counts().matched,
            Matched::Joined(joined) => joined.counts().matched,
        })
    }

    #[getter]
    fn rows(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(match self.matched.get(py)?.as_ref() {
            Matched::Pairs(pairs) => pairs.matched.counts().rows,
            Matched::Joined(joined) => joined.counts().rows,
        })
    }

    /// The counts of each table, as (rows in, matched, rows).
    #[getter]
    fn hops(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64, u64)>> {
        Ok(match self.matched.get(py)?.as_ref() {
            Matched::Pairs(pairs) => {
                let counts = pairs.matched.counts();
                vec![(counts.population, counts.matched, counts.rows)]
            }
            Matched::Joined(joined) => {
                joined.hops().iter().map(|hop| (hop.rows_in, hop.matched, hop.rows)).collect()
            }
        })
    }

    /// The steps that read the population of each table.
    #[getter]
    fn plan(&self, py: Python<'_>) -> PyResult<Vec<PlanRow>> {
        let steps: Vec<PlanStep> = match self.matched.get(py)?.as_ref() {
            Matched::Pairs(pairs) => pairs.matched.plan(),
            Matched::Joined(joined) => {
                joined.hops().iter().flat_map(|hop| hop.plan.clone()).collect()
            }
        };
        let steps = steps.into_iter();
        Ok(steps.map(|step| (step.how, step.requests, step.keys, step.why)).collect())
    }

    /// Seconds that callers have waited, the part of them in which no other thread worked for the callers,
    /// and the thread time of each stage in seconds: reading the population, waiting, decoding, probing,
    /// carrying, writing.
    #[getter]
    fn timings(&self) -> (f64, f64, [f64; Stage::ALL.len()]) {
        let times = self.timings.times().map(|time| time.as_secs_f64());
        let [elapsed, single] = [self.timings.elapsed(), self.timings.single_threaded_time()];
        (elapsed.as_secs_f64(), single.as_secs_f64(), times)
    }

    /// The requests to servers; `None` where there are no servers.
    #[getter]
    fn requests(&self, py: Python<'_>) -> PyResult<Option<AskedOfServers>> {
        let all = match self.matched.get(py)?.as_ref() {
            Matched::Pairs(pairs) => pairs.matched.requests(),
            Matched::Joined(joined) => joined.requests(),
        };
        Ok(all.map(|all| {
            (
                all.asked,
                all.answered,
                all.repeated,
                all.partitions_asked,
                all.partitions_answered,
                all.in_flight,
                all.is_rate_limited,
            )
        }))
    }

    /// The rows of the result.
    fn output(&self, py: Python<'_>) -> PyResult<Rows> {
        Ok(match self.matched.get(py)?.as_ref() {
            Matched::Pairs(pairs) => self.timed(pairs.clone()),
            Matched::Joined(joined) => self.timed(Arc::clone(joined)),
        })
    }

    /// The population rows without a match; InvalidArgument for a match of pairs alone.
    fn unmatched(&self, py: Python<'_>) -> PyResult<Rows> {
        match self.matched.get(py)?.as_ref() {
            Matched::Joined(joined) => Ok(self.timed(Unmatched(Arc::clone(joined)))),
            Matched::Pairs(_) => {
                let text = "this match has not kept its unmatched rows; match with unmatched=True";
                Err(raise(py, &Error::new(ErrorKind::InvalidArgument, text)))
            }
        }
    }
}

impl Match {
    fn timed(&self, rows: impl RowSource + 'static) -> Rows {
        Rows::timed(rows, &self.calls, &self.timings)
    }
}

/// Matches the identifiers of a population with a table.
#[pyfunction]
#[pyo3(signature = (table, sources, by, most, since, until, short))]
#[allow(clippy::too_many_arguments, reason = "Python names them")]
pub(crate) fn match_population(
    py: Python<'_>,
    table: &Table,
    sources: &Bound<'_, PyAny>,
    by: &str,
    most: Option<u32>,
    since: Option<i64>,
    until: Option<i64>,
    short: bool,
) -> PyResult<Match> {
    let reader = table.reader(py)?;
    let query = MatchQuery {
        by: side(py, by)?,
        pick: pick(py, most)?,
        window: window(py, since, until)?,
        positions: false,
    };
    let (iterator, raised) = (sources.try_iter()?.unbind(), Raised::default());
    let (timings, calls) = (Arc::new(Timings::new(!short)), Arc::clone(&table.context().calls));
    let run = |call: &Call, stop: &AtomicBool| {
        let mut source = PySource::new(iterator, raised.clone(), stop);
        let call = &call.clone().timed(&timings);
        let find = || reader.open(call)?.match_population(&mut source, query, call);
        calls.measure(CallKind::Match, || timings.run(find))
    };
    // A match that waits for servers may take long for any population.
    let matched = if short && !table.context().is_remote {
        uninterrupted(py, || run(&Call::default(), &AtomicBool::new(false)))?
    } else {
        interruptible(py, |watch| run(&watch.call(), watch.stop()))?
    };
    let matched = finish(py, matched, &raised)?.into();
    let pairs = MatchedPairs { matched, by: query.by };
    Ok(Match { matched: Own::new(Matched::Pairs(pairs)), calls, timings })
}

/// Matches a population with a table and then with others, and keeps the carried columns of its rows.
#[pyfunction]
pub(crate) fn match_chain(
    py: Python<'_>,
    table: &Table,
    sources: &Bound<'_, PyAny>,
    hops: Vec<GivenHop>,
    keep_unmatched: bool,
    with_hops: bool,
) -> PyResult<Match> {
    let reader = table.reader(py)?;
    let mut queries = Vec::with_capacity(hops.len());
    for (name, by, most, since, until) in hops {
        let name: Option<TableName> = name.map(|name| name.parse()).transpose().or_raise(py)?;
        queries.push((name, (side(py, &by)?, pick(py, most)?, window(py, since, until)?)));
    }
    let options = JoinOptions { keep_unmatched, with_hops };
    let (iterator, raised) = (sources.try_iter()?.unbind(), Raised::default());
    let (timings, calls) = (Arc::new(Timings::new(true)), Arc::clone(&table.context().calls));
    let joined = interruptible(py, |watch| {
        let call = watch.call().timed(&timings);
        let find = || {
            let hops = open_all(reader, queries, &call)?;
            let mut source = PySource::new(iterator, raised.clone(), watch.stop());
            join(&mut source, hops, options, &call)
        };
        calls.measure(CallKind::Match, || timings.run(find))
    })?;
    let joined = Arc::new(finish(py, joined, &raised)?);
    Ok(Match { matched: Own::new(Matched::Joined(joined)), calls, timings })
}

type HopQuery = (Side, idmatch_model::Pick, idmatch_model::Window);

/// The tables of a chain, at one snapshot.
fn open_all(
    reader: TableReader<'_>,
    queries: Vec<(Option<TableName>, HopQuery)>,
    call: &Call,
) -> Result<Vec<Hop>> {
    let snapshot = reader.snapshot(call)?;
    let hop = |(name, (by, pick, window)): (Option<TableName>, HopQuery)| {
        let table = match name {
            Some(name) => snapshot.table_named(&name, call)?,
            None => reader.open_in(snapshot.as_ref(), call)?,
        };
        Ok(Hop { table, by, pick, window })
    };
    queries.into_iter().map(hop).collect()
}
