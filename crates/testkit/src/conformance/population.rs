//! Matches of populations, and what they must count and give.

use super::compare::{Difference, Row, compare_match};
use super::format::MatchQuestion;
use super::generate::expand;
use super::input::{Batches, Cut};
use super::load::{Loading, load};
use super::value::{Date, Scope, Text, window};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{RecordBatch, StringArray};
use idmatch_model::{SeenAt, Side};
use idmatch_store::{
    Error, ErrorKind, Match, MatchCounts, MatchLane, MatchQuery, MatchSink, Result, Table,
    match_schema,
};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Matches the population, and compares counts and rows.
pub(super) fn ask(
    table: &Table,
    question: &MatchQuestion,
    scope: Scope,
    cut: Cut,
) -> Result<Vec<Difference>> {
    let window = window(question.since.as_ref(), question.until.as_ref(), scope)?;
    let query = MatchQuery { by: question.by, pick: question.pick, window };
    let mut population = Batches::of_population(&question.population, scope, cut)?;
    let result = table.match_population(&mut population, query)?;
    let mut differences = Vec::new();
    let expected = MatchCounts {
        population: question.counts.population,
        matched: question.counts.matched,
        rows: question.counts.rows,
    };
    differences.extend(compare_counts(expected, result.counts()));
    if let Some(later) = &question.then_load {
        differences.extend(load(table, later, Loading::default(), scope, cut)?);
    }
    let row = |(key, answer, seen_at): &(Text, Text, Date), scope| {
        let ids = vec![key.text(scope)?, answer.text(scope)?];
        Ok(Row { ids, seen_at: seen_at.instant(scope)? })
    };
    let rows = question.rows.as_ref().map(|rows| expand(rows, scope, row)).transpose()?;
    // Twice, because a match can be read any number of times.
    for _ in 0..2 {
        let got = read(result.as_ref(), question.by)?;
        let counts = MatchCounts { rows: got.len() as u64, ..expected };
        differences.extend(compare_counts(expected, counts));
        differences.extend(rows.as_ref().and_then(|rows| compare_match(rows, &got)));
    }
    if expected.rows > 0 {
        differences.extend(check_refusal(result.as_ref()));
    }
    Ok(differences)
}

fn compare_counts(expected: MatchCounts, got: MatchCounts) -> Option<Difference> {
    let shown = |counts: MatchCounts| {
        let MatchCounts { population, matched, rows } = counts;
        format!("population {population}, matched {matched}, rows {rows}")
    };
    (expected != got).then(|| Difference { expected: shown(expected), got: shown(got) })
}

fn read(result: &dyn Match, by: Side) -> Result<Vec<Row>> {
    let rows = Mutex::new(Vec::new());
    result.write(&|batch| {
        let batch = rows_of(&batch, by)?;
        lock(&rows).extend(batch);
        Ok(())
    })?;
    Ok(rows.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn rows_of(batch: &RecordBatch, by: Side) -> Result<Vec<Row>> {
    let malformed = || {
        let what = format!("a match gave a batch with the schema {}", batch.schema_ref());
        Error::new(ErrorKind::InvalidArgument, what)
    };
    let [keys, answers, dates] = batch.columns() else { return Err(malformed()) };
    if *batch.schema_ref() != match_schema(by) {
        return Err(malformed());
    }
    let (keys, answers): (&StringArray, &StringArray) = (keys.as_string(), answers.as_string());
    let dates = dates.as_primitive::<TimestampMillisecondType>();
    let row = |((key, answer), date): ((Option<&str>, Option<&str>), Option<i64>)| {
        let (Some(key), Some(answer), Some(date)) = (key, answer, date) else {
            return Err(malformed());
        };
        let seen_at = SeenAt::from_millis(date)?;
        Ok(Row { ids: vec![key.to_owned(), answer.to_owned()], seen_at })
    };
    keys.iter().zip(answers).zip(dates).map(row).collect()
}

/// An error of the sink must stop the match and be its error.
fn check_refusal(result: &dyn Match) -> Option<Difference> {
    let sink = RefusingSink::default();
    let outcome = result.write(&sink);
    let got = match (outcome, sink.overrun.load(Relaxed)) {
        (Err(error), false) if error.kind() == REFUSAL => return None,
        (outcome, overrun) => format!("{outcome:?}, lanes used after an error: {overrun}"),
    };
    Some(Difference { expected: "the error of the sink".to_owned(), got })
}

const REFUSAL: ErrorKind = ErrorKind::Busy;

/// Refuses each batch, and records a lane that sends another one after that.
#[derive(Default)]
struct RefusingSink {
    overrun: AtomicBool,
}

struct RefusingLane<'a> {
    refused: bool,
    overrun: &'a AtomicBool,
}

impl MatchSink for RefusingSink {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        Ok(Box::new(RefusingLane { refused: false, overrun: &self.overrun }))
    }
}

impl MatchLane for RefusingLane<'_> {
    fn push(&mut self, _: RecordBatch) -> Result<()> {
        self.overrun.fetch_or(self.refused, Relaxed);
        self.refused = true;
        Err(Error::new(REFUSAL, "the sink takes nothing"))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.overrun.fetch_or(self.refused, Relaxed);
        Ok(())
    }
}
