//! Scans of a table, which must give each visible observation once.

use super::compare::{Difference, ResultRow, compare_rows};
use super::format::{ObservedRow, ScanQuestion};
use super::generate::expand;
use super::sent;
use super::value::{Scope, window};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use idmatch_model::Side;
use idmatch_store::locks::Mutex;
use idmatch_store::{Call, Columns, MatchSink, Result, ScanQuery, ScanRanges, Table, match_schema};

/// How many ranges a table is scanned in.
const SPLITS: usize = 3;

/// Some columns, and none.
const PARTIAL: [Columns; 3] = [
    Columns { key: true, value: false, seen_at: false },
    Columns { key: false, value: true, seen_at: true },
    Columns { key: false, value: false, seen_at: false },
];

/// Sends all rows.
type ScanFn<'s> = dyn Fn(&dyn MatchSink) -> Result<()> + 's;

/// Scans the table as a whole, range by range and column by column, and compares the rows. Their order is
/// free.
pub(super) fn ask(table: &Table, question: &ScanQuestion, scope: Scope) -> Result<Vec<Difference>> {
    let window = window(question.since.as_ref(), question.until.as_ref(), scope)?;
    let row = |(id, partner_id, seen_at): &ObservedRow, scope| {
        let ids = vec![id.text(scope)?, partner_id.text(scope)?];
        Ok(ResultRow { ids, seen_at: seen_at.instant(scope)? })
    };
    let expected = sorted(expand(&question.answer, scope, row)?);
    let (snapshot, call) = (table.snapshot()?, Call::default());
    let whole =
        |sink: &dyn MatchSink| snapshot.scan(&ScanRanges::all(), window.into(), sink, &call);
    let splits = snapshot.splits(SPLITS);
    let by_range = |sink: &dyn MatchSink| {
        splits.iter().try_for_each(|split| snapshot.scan_split(split, window.into(), sink, &call))
    };
    let ways: [(&str, &ScanFn<'_>); 2] = [("as a whole", &whole), ("by ranges", &by_range)];
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
    for columns in PARTIAL {
        let query = ScanQuery { window, columns };
        let got =
            read_projected(columns, |sink| snapshot.scan(&ScanRanges::all(), query, sink, &call))?;
        let expected = projected(&expected, columns);
        if expected != got {
            let (expected, got) = (format!("{expected:?} of {columns:?}"), format!("{got:?}"));
            differences.push(Difference { expected, got });
        }
    }
    Ok(differences)
}

/// The wanted values of a row.
type ProjectedRow = (Vec<String>, Option<i64>);

fn projected(rows: &[ResultRow], columns: Columns) -> Vec<ProjectedRow> {
    let row_of = |row: &ResultRow| {
        let ids = row.ids.iter().zip([columns.key, columns.value]).filter(|(_, wanted)| *wanted);
        let date = columns.seen_at.then_some(row.seen_at.millis_i64());
        (ids.map(|(id, _)| id.clone()).collect(), date)
    };
    let mut rows: Vec<ProjectedRow> = rows.iter().map(row_of).collect();
    rows.sort_unstable();
    rows
}

fn read_projected(
    columns: Columns,
    send: impl FnOnce(&dyn MatchSink) -> Result<()>,
) -> Result<Vec<ProjectedRow>> {
    let rows = Mutex::new(Vec::new());
    send(&|batch: RecordBatch| {
        assert_eq!(*batch.schema_ref(), columns.schema(Side::Id));
        let text = |name| batch.column_by_name(name).map(|column| column.as_string::<i32>());
        let texts = [text("id"), text("partner_id")];
        let dates = batch.column_by_name("seen_at");
        let dates = dates.map(|column| column.as_primitive::<TimestampMillisecondType>());
        let row_of = |row| {
            let ids = texts.iter().flatten().map(|text| text.value(row).to_owned()).collect();
            (ids, dates.map(|dates| dates.value(row)))
        };
        let read = (0..batch.num_rows()).map(row_of);
        rows.lock().extend(read);
        Ok(())
    })?;
    let mut rows = rows.into_inner();
    rows.sort_unstable();
    Ok(rows)
}

fn read(send: impl FnOnce(&dyn MatchSink) -> Result<()>) -> Result<Vec<ResultRow>> {
    let rows = sent::read(&match_schema(Side::Id), sent::texts, send)?.into_iter();
    Ok(rows
        .map(|(id, partner_id, seen_at)| ResultRow { ids: vec![id, partner_id], seen_at })
        .collect())
}

fn sorted(mut rows: Vec<ResultRow>) -> Vec<ResultRow> {
    rows.sort_unstable();
    rows
}
