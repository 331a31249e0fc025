//! Matches of populations, and what they must count and give.

use super::ask::window;
use super::compare::{Difference, Row, compare_match};
use super::format::MatchQuestion;
use super::input::{Batches, Cut};
use super::load::load;
use super::value::{Date, Scope, Text, expand};
use crate::{
    Error, ErrorKind, Match, MatchCounts, MatchQuery, MatchSink, Result, Table, match_schema,
};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{RecordBatch, StringArray};
use idmatch_model::{SeenAt, Side};

/// Matches the population, and compares counts and rows.
pub(super) fn ask(
    table: &dyn Table,
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
        differences.extend(load(table, later, false, scope, cut)?);
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
    let mut rows = Rows { by, rows: Vec::new() };
    result.write(&mut rows)?;
    Ok(rows.rows)
}

/// Keeps every row of a match.
struct Rows {
    by: Side,
    rows: Vec<Row>,
}

impl MatchSink for Rows {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let malformed = || {
            let what = format!("a match gave a batch with the schema {}", batch.schema_ref());
            Error::new(ErrorKind::InvalidArgument, what)
        };
        let [keys, answers, dates] = batch.columns() else { return Err(malformed()) };
        if *batch.schema_ref() != match_schema(self.by) {
            return Err(malformed());
        }
        let (keys, answers): (&StringArray, &StringArray) = (keys.as_string(), answers.as_string());
        let dates = dates.as_primitive::<TimestampMillisecondType>();
        for ((key, answer), date) in keys.iter().zip(answers).zip(dates) {
            let (Some(key), Some(answer), Some(date)) = (key, answer, date) else {
                return Err(malformed());
            };
            let seen_at = SeenAt::from_millis(date)?;
            self.rows.push(Row { ids: vec![key.to_owned(), answer.to_owned()], seen_at });
        }
        Ok(())
    }
}

/// An error of the sink must stop the match and be its error.
fn check_refusal(result: &dyn Match) -> Option<Difference> {
    let mut sink = RefusingSink { batches: 0 };
    let outcome = result.write(&mut sink);
    let got = match (outcome, sink.batches) {
        (Err(error), 1) if error.kind() == REFUSAL => return None,
        (outcome, batches) => format!("{outcome:?} after {batches} batches"),
    };
    Some(Difference { expected: "the error of the first batch's sink".to_owned(), got })
}

const REFUSAL: ErrorKind = ErrorKind::Busy;

struct RefusingSink {
    batches: usize,
}

impl MatchSink for RefusingSink {
    fn push(&mut self, _: RecordBatch) -> Result<()> {
        self.batches += 1;
        Err(Error::new(REFUSAL, "the sink takes nothing"))
    }
}
