//! All that a table of a snapshot answers, to be compared with the same of another store or another time.

use super::rows::{Batches, Row};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMillisecondType, UInt32Type};
use idmatch_model::{Pick, Side, Window};
use idmatch_store::locks::Mutex;
use idmatch_store::{Call, Lookup, Match, MatchQuery, ScanRanges, TableSnapshot};

/// A question, and its answer as rows.
type Answer = (String, Vec<Row>);

/// The answers to all questions about some ids and partner_ids: lookups, histories, matches and scans.
pub(crate) fn whole(
    table: &dyn TableSnapshot,
    keys: [&[String]; 2],
    windows: &[Window],
) -> Vec<Answer> {
    let mut answers = Vec::new();
    for window in windows {
        for (by, keys) in Side::BOTH.into_iter().zip(keys) {
            for limit in [1, usize::MAX] {
                let lookup = Lookup { by, window: *window, limit };
                answers.push((format!("{lookup:?}"), looked_up(table, keys, lookup)));
            }
            for (pick, positions) in
                [Pick::All, Pick::Latest].map(|pick| [(pick, false), (pick, true)]).concat()
            {
                let query = MatchQuery { by, pick, window: *window, positions };
                let mut population = Batches::of_population(keys);
                let matched =
                    table.match_population(&mut population, query, &Call::default()).unwrap();
                answers.push((format!("{query:?}"), match_rows(&*matched, query)));
            }
        }
        answers.push((format!("scan {window:?}"), scanned(table, &ScanRanges::all(), *window)));
    }
    let mut dates = Vec::new();
    for (id, partner_id) in keys[0].iter().flat_map(|id| keys[1].iter().map(move |p| (id, p))) {
        let row =
            |date: &idmatch_model::SeenAt| (id.clone(), partner_id.clone(), date.millis_i64());
        let history = table.history(id, partner_id, &Call::default()).unwrap();
        let last = table.last_seen(id, partner_id, &Call::default()).unwrap();
        assert_eq!(history.first(), last.as_ref(), "{id} {partner_id}");
        dates.extend(history.iter().map(row));
    }
    answers.push(("histories".to_owned(), dates));
    answers
}

/// Asserts that two say the same, and names the first question to which they do not.
pub(crate) fn assert_same(told: &[Answer], expected: &[Answer], what: &str) {
    assert_eq!(told.len(), expected.len());
    for ((question, told), (_, expected)) in told.iter().zip(expected) {
        assert_eq!(told, expected, "{what}: {question}");
    }
}

/// The answers of several keys: key, answer, date.
pub(crate) fn looked_up(table: &dyn TableSnapshot, keys: &[String], lookup: Lookup) -> Vec<Row> {
    let asked: Vec<&str> = keys.iter().map(String::as_str).collect();
    let answers = table.lookup_many(&asked, lookup, &Call::default()).unwrap();
    assert_eq!(answers.keys(), keys.len());
    let of_key = |(position, key): (usize, &String)| {
        let rows = answers
            .of(position)
            .map(|(answer, date)| (key.clone(), answer.to_owned(), date.millis_i64()));
        rows.collect::<Vec<Row>>()
    };
    keys.iter().enumerate().flat_map(of_key).collect()
}

/// The rows of some scan ranges, sorted.
pub(crate) fn scanned(table: &dyn TableSnapshot, ranges: &ScanRanges, window: Window) -> Vec<Row> {
    let rows = Mutex::new(Vec::new());
    let take = |batch: RecordBatch| {
        rows.lock().extend(rows_of(&batch));
        Ok(())
    };
    table.scan(ranges, window.into(), &take, &Call::default()).unwrap();
    sorted(rows)
}

/// The counts, the matches in order, and the unmatched rows of a positional match with their reasons.
fn match_rows(matched: &dyn Match, query: MatchQuery) -> Vec<Row> {
    let rows = Mutex::new(Vec::new());
    matched
        .write(&|batch: RecordBatch| {
            rows.lock().extend(rows_of(&batch));
            Ok(())
        })
        .unwrap();
    let mut rows = sorted(rows);
    let counts = matched.counts();
    assert_eq!(counts.rows, rows.len() as u64);
    rows.push((counts.population.to_string(), counts.matched.to_string(), 0));
    if query.positions {
        matched
            .unmatched(&mut |row, reason| {
                rows.push((row.to_string(), format!("{reason:?}"), 0));
                Ok(())
            })
            .unwrap();
    }
    rows
}

fn sorted(rows: Mutex<Vec<Row>>) -> Vec<Row> {
    let mut rows = rows.into_inner();
    rows.sort();
    rows
}

/// The rows of a batch: a key, or the number of a population row; the answer; the date.
pub(crate) fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let keys: Vec<String> = match batch.column(0).as_string_opt::<i32>() {
        Some(keys) => keys.iter().flatten().map(str::to_owned).collect(),
        None => {
            let rows = batch.column(0).as_primitive::<UInt32Type>().values();
            rows.iter().map(u32::to_string).collect()
        }
    };
    let answers = batch.column(1).as_string::<i32>().iter().flatten();
    let dates = batch.column(2).as_primitive::<TimestampMillisecondType>().values();
    let rows = keys.into_iter().zip(answers).zip(dates);
    rows.map(|((key, answer), date)| (key, answer.to_owned(), *date)).collect()
}
