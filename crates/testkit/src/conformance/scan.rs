//! Scans of a table, and what they must give: each visible observation once.

use super::compare::{Difference, Row, compare_rows};
use super::format::{ObservedRow, ScanQuestion};
use super::generate::expand;
use super::sent;
use super::value::{Scope, window};
use idmatch_model::Side;
use idmatch_store::{Call, MatchSink, Parts, Result, Table, match_schema};

/// How many ranges a table is scanned in.
const RANGES: usize = 3;

/// Sends all rows.
type Scan<'s> = dyn Fn(&dyn MatchSink) -> Result<()> + 's;

/// Scans the table as a whole and range by range, and compares the rows, whose order is free.
pub(super) fn ask(table: &Table, question: &ScanQuestion, scope: Scope) -> Result<Vec<Difference>> {
    let window = window(question.since.as_ref(), question.until.as_ref(), scope)?;
    let row = |(id, partner_id, seen_at): &ObservedRow, scope| {
        let ids = vec![id.text(scope)?, partner_id.text(scope)?];
        Ok(Row { ids, seen_at: seen_at.instant(scope)? })
    };
    let expected = sorted(expand(&question.answer, scope, row)?);
    let (snapshot, call) = (table.snapshot()?, Call::default());
    let whole = |sink: &dyn MatchSink| snapshot.scan(&Parts::all(), window, sink, &call);
    let ranges = snapshot.scan_ranges(RANGES);
    let by_range = |sink: &dyn MatchSink| {
        ranges.iter().try_for_each(|range| snapshot.scan_range(range, window, sink, &call))
    };
    let ways: [(&str, &Scan<'_>); 2] = [("as a whole", &whole), ("by ranges", &by_range)];
    let mut differences = Vec::new();
    for (way, send) in ways {
        let mut found = compare_rows(&expected, &sorted(read(send)?));
        if found.is_none() && !expected.is_empty() {
            found = sent::check_refusal(send);
        }
        let told = |Difference { expected, got }| Difference {
            expected: format!("{expected}, {way}"),
            got,
        };
        differences.extend(found.map(told));
    }
    Ok(differences)
}

fn read(send: impl FnOnce(&dyn MatchSink) -> Result<()>) -> Result<Vec<Row>> {
    let rows = sent::read(&match_schema(Side::Id), sent::texts, send)?.into_iter();
    Ok(rows.map(|(id, partner_id, seen_at)| Row { ids: vec![id, partner_id], seen_at }).collect())
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_unstable();
    rows
}
