//! Matches of populations, and the counts and rows that they must have.

use super::compare::{Difference, ResultRow, compare_answer, compare_match};
use super::format::{Item, MatchQuestion, MatchRow};
use super::generate::expand;
use super::input::{Batches, Batching};
use super::load::{Loading, load};
use super::positions;
use super::sent;
use super::value::{Scope, Text, window};
use idmatch_store::{Match, MatchCounts, MatchQuery, Result, Table};

/// Matches the population, without positions and with them, and compares counts and rows.
pub(super) fn ask(
    table: &Table,
    question: &MatchQuestion,
    scope: Scope,
    batching: Batching,
) -> Result<Vec<Difference>> {
    let window = window(question.since.as_ref(), question.until.as_ref(), scope)?;
    let query = MatchQuery { by: question.by, pick: question.pick, window, positions: false };
    let positional = MatchQuery { positions: true, ..query };
    let mut population = Batches::of_population(&question.population, Vec::new(), scope, batching)?;
    let plain = table.match_population(&mut population, query);
    let mut population = Batches::of_population(&question.population, Vec::new(), scope, batching)?;
    let numbered = table.match_population(&mut population, positional)?;
    let mut differences = Vec::new();
    let expected = MatchCounts {
        population: question.counts.population,
        matched: question.counts.matched,
        rows: question.counts.rows,
    };
    differences.extend(compare_counts(expected, numbered.counts()));
    if let Some(later) = &question.then_load {
        differences.extend(load(table, later, Loading::default(), scope, batching)?);
    }
    let mut got = Vec::new();
    match (&question.error, plain) {
        (None, plain) => {
            let plain = plain?;
            let rows = question.rows.as_deref();
            got = check_plain(plain.as_ref(), &query, (expected, rows), scope, &mut differences)?;
        }
        (Some(code), plain) => {
            let plain = plain.map(|_| Vec::new());
            differences.extend(compare_answer(&Err(code.clone()), &plain));
        }
    }
    let cell = |row: &Option<Text>, scope| row.as_ref().map(|row| row.bytes(scope)).transpose();
    let population = expand(&question.population, scope, cell)?;
    let numbered = numbered.as_ref();
    differences.extend(positions::compare(numbered, &positional, &population, &got)?);
    Ok(differences)
}

/// Compares counts and rows of a match without positions; returns its rows.
fn check_plain(
    result: &dyn Match,
    query: &MatchQuery,
    (expected, rows): (MatchCounts, Option<&[Item<MatchRow>]>),
    scope: Scope,
    differences: &mut Vec<Difference>,
) -> Result<Vec<ResultRow>> {
    differences.extend(compare_counts(expected, result.counts()));
    differences.extend(positions::check_plain(result));
    let row = |(key, answer, seen_at): &MatchRow, scope| {
        let ids = vec![key.text(scope)?, answer.text(scope)?];
        Ok(ResultRow { ids, seen_at: seen_at.instant(scope)? })
    };
    let rows = rows.map(|rows| expand(rows, scope, row)).transpose()?;
    // Twice, because a match can be read any number of times.
    let mut got = Vec::new();
    for _ in 0..2 {
        got = read(result, query)?;
        let counts = MatchCounts { rows: got.len() as u64, ..expected };
        differences.extend(compare_counts(expected, counts));
        differences.extend(rows.as_ref().and_then(|rows| compare_match(rows, &got)));
    }
    if expected.rows > 0 {
        differences.extend(sent::check_refusal(|sink| result.write(sink)));
    }
    Ok(got)
}

fn compare_counts(expected: MatchCounts, got: MatchCounts) -> Option<Difference> {
    let shown = |counts: MatchCounts| {
        let MatchCounts { population, matched, rows } = counts;
        format!("population {population}, matched {matched}, rows {rows}")
    };
    (expected != got).then(|| Difference { expected: shown(expected), got: shown(got) })
}

fn read(matched: &dyn Match, query: &MatchQuery) -> Result<Vec<ResultRow>> {
    let rows = sent::read(&query.schema(), sent::texts, |sink| matched.write(sink))?.into_iter();
    Ok(rows.map(|(key, answer, seen_at)| ResultRow { ids: vec![key, answer], seen_at }).collect())
}
