//! Matches whose population and results are larger than the memory that they may take.

use crate::common::{Batches, fresh, load, open_with, rows_of};
use crate::proxy::{Between, naming};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMillisecondType, UInt32Type};
use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use idmatch_model::{Pick, Side, TableOptions, Window};
use idmatch_store::locks::Mutex;
use idmatch_store::{
    BatchSource, Error, ErrorKind, Match, MatchQuery, OpenTables, Result, SourceBatch, Table,
    UnmatchedReason,
};
use scylla::errors::DbError;
use scylla_proxy::{Condition, RequestReaction, RequestRule};
use std::collections::VecDeque;
use std::sync::Arc;

const THEN: i64 = 1_750_000_000_000;
const QUERY: MatchQuery =
    MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: false };

type Row = (String, String, i64);

/// Some batches of a population, and then an error.
#[derive(Default)]
struct Population(VecDeque<SourceBatch>, Option<Error>);

impl Population {
    fn of(ids: &[String], each: usize) -> Population {
        let batch = |ids| Batches::of_ids(ids).next_batch().unwrap().unwrap();
        Population(ids.chunks(each).map(batch).collect(), None)
    }
}

impl BatchSource for Population {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        match self.0.pop_front() {
            Some(batch) => Ok(Some(batch)),
            None => self.1.take().map_or(Ok(None), Err),
        }
    }
}

/// A table in which every third id has two partner_ids.
fn table(keyspace: &str, options: &str) -> Table {
    let store = open_with(keyspace, options);
    store.table_with(&"t".parse().unwrap(), &TableOptions::default()).unwrap()
}

fn rows() -> Vec<Row> {
    let of = |n: i64| {
        let row = |value: &str| (format!("id{n}"), format!("{value}{n}"), THEN + n);
        if n % 3 == 0 { vec![row("a"), row("b")] } else { vec![row("a")] }
    };
    (0..3_000).flat_map(of).collect()
}

/// The rows, what was counted, and how many requests it took.
fn found(table: &Table, mut population: Population) -> (Vec<Row>, [u64; 3], u64) {
    let matched = table.match_population(&mut population, QUERY).unwrap();
    let mut rows = rows_of(|sink| matched.write(sink));
    // It can be read again.
    let again = rows_of(|sink| matched.write(sink)).len();
    rows.sort_unstable();
    let counts = matched.counts();
    assert_eq!((rows.len(), again as u64), (counts.rows as usize, counts.rows));
    let requests = matched.plan().iter().map(|step| step.requests).sum();
    // Each has one page.
    let sent = matched.requests().unwrap();
    assert_eq!([sent.asked, sent.partitions_asked], [requests; 2]);
    assert_eq!([sent.answered, sent.partitions_answered], [requests; 2]);
    (rows, [counts.population, counts.matched, counts.rows], requests)
}

#[test]
fn a_population_may_be_larger_than_memory() {
    let _beside = fresh("matches");
    load(&table("matches", ""), &rows());
    // Ids that are there, in several batches some of them, and ids that are not.
    let ids: Vec<String> = (0..5_000).map(|n| format!("id{}", n * 7 % 4_000)).collect();
    let mut expected: Vec<Row> = Vec::new();
    for id in &ids {
        let n: i64 = id[2..].parse().unwrap();
        let values: &[&str] = if n % 3 == 0 { &["a", "b"] } else { &["a"] };
        let row = |value: &&str| (id.clone(), format!("{value}{n}"), THEN + n);
        expected.extend(values.iter().filter(|_| n < 3_000).map(row));
    }
    expected.sort_unstable();
    let is_there = |id: &&String| id[2..].parse::<i64>().unwrap() < 3_000;
    let counts = [5_000, ids.iter().filter(is_there).count() as u64, expected.len() as u64];
    // Each of the 17 Arrow batches is read as one, with all 16 buckets; every four are; all are.
    for (options, batches) in [("&match_memory=1", 17), ("&match_memory=64k", 5), ("", 1)] {
        let table = table("matches", &format!("&match_reads=partition_scans{options}"));
        let given = found(&table, Population::of(&ids, 300));
        assert_eq!(given.1, counts, "{options}");
        assert_eq!(given.0, expected, "{options}");
        assert_eq!(given.2, batches * 16, "{options}");
    }
}

/// A population row, and what becomes of it: its answers, or why there are none.
type Cell = (Option<Vec<u8>>, Result<Vec<(String, i64)>, UnmatchedReason>);

/// Ids of which some are several times in the population, nulls, and cells that are no identifiers.
fn cells() -> Vec<Cell> {
    let cell = |n: i64| match n % 10 {
        3 => (None, Err(UnmatchedReason::Null)),
        7 => (Some(vec![b'i', 0xff]), Err(UnmatchedReason::Malformed)),
        _ => {
            let id = n * 7 % 4_000;
            let values: &[&str] = if id % 3 == 0 { &["a", "b"] } else { &["a"] };
            let answers = values.iter().map(|value| (format!("{value}{id}"), THEN + id)).collect();
            let found = if id < 3_000 { Ok(answers) } else { Err(UnmatchedReason::NotFound) };
            (Some(format!("id{id}").into_bytes()), found)
        }
    };
    (0..5_000).map(cell).collect()
}

/// The rows of a positional match, by the numbers of the population rows.
fn numbered(matched: &dyn Match) -> Vec<(u32, (String, i64))> {
    let rows = Mutex::new(Vec::new());
    let take = |batch: RecordBatch| {
        let numbers = batch.column(0).as_primitive::<UInt32Type>();
        let values = batch.column(1).as_string::<i32>();
        let dates = batch.column(2).as_primitive::<TimestampMillisecondType>();
        let answers = values.iter().zip(dates);
        let answers = answers.map(|(value, date)| (value.unwrap().to_owned(), date.unwrap()));
        rows.lock().extend(numbers.values().iter().copied().zip(answers));
        Ok(())
    };
    matched.write(&take).unwrap();
    let mut rows = rows.into_inner();
    // Stable: the answers of a row keep their order.
    rows.sort_by_key(|row| row.0);
    rows
}

#[test]
fn rows_of_a_population_are_told_by_their_numbers() {
    let _beside = fresh("numbers");
    load(&table("numbers", ""), &rows());
    let cells = cells();
    let batches: Vec<SourceBatch> = cells
        .chunks(300)
        .map(|cells| {
            let ids: BinaryArray = cells.iter().map(|cell| cell.0.as_deref()).collect();
            let batch =
                RecordBatch::try_from_iter_with_nullable([("x", Arc::new(ids) as ArrayRef, true)]);
            // The number of a source is no position.
            SourceBatch { source: "test".into(), first_row: 77, batch: batch.unwrap() }
        })
        .collect();
    let outcomes = || (0..).zip(cells.iter().map(|cell| &cell.1));
    let found = outcomes().filter_map(|(row, outcome)| Some((row, outcome.as_ref().ok()?)));
    let found: Vec<(u32, (String, i64))> =
        found.flat_map(|(row, answers)| answers.iter().map(move |a| (row, a.clone()))).collect();
    let lost: Vec<(u32, UnmatchedReason)> =
        outcomes().filter_map(|(row, outcome)| Some((row, *outcome.as_ref().err()?))).collect();
    let query = MatchQuery { positions: true, ..QUERY };
    // Many batches, whose rows wait in a file; IN queries, and partition scans; hot keys.
    for options in [
        "&match_memory=1",
        "&match_reads=in_queries",
        "&match_reads=partition_scans",
        "&hot_key_rows=1",
    ] {
        let table = table("numbers", options);
        let mut population = Population(batches.clone().into(), None);
        let matched = table.match_population(&mut population, query).unwrap();
        assert_eq!(numbered(&*matched), found, "{options}");
        let mut unmatched = Vec::new();
        let take = &mut |row, reason| {
            unmatched.push((row, reason));
            Ok(())
        };
        matched.unmatched(take).unwrap();
        assert_eq!(unmatched, lost, "{options}");
        let counts = matched.counts();
        let counted = (counts.population, counts.matched, counts.rows);
        assert_eq!(counted, (5_000, 5_000 - lost.len() as u64, found.len() as u64), "{options}");
    }
    let matched = table("numbers", "").match_population(&mut Population::default(), QUERY).unwrap();
    let error = matched.unmatched(&mut |_, _| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_population_of_long_ids_is_read_in_more_batches() {
    const BATCHES: usize = 12;
    let _beside = fresh("long_ids");
    // Their rows alone would be one batch.
    let table = table("long_ids", "&match_reads=partition_scans&match_memory=256k");
    let ids: Vec<String> = (0..300 * BATCHES).map(|n| format!("{n:0>600}")).collect();
    let rows: Vec<Row> = ids.iter().map(|id| (id.clone(), "p".to_owned(), THEN)).collect();
    load(&table, &rows);
    let given = found(&table, Population::of(&ids, 300));
    assert_eq!(given.1, [ids.len() as u64; 3]);
    assert!(given.2 > 16, "{} requests", given.2);
}

#[test]
fn a_population_that_cannot_be_read_is_an_error() {
    let _beside = fresh("unread");
    let table = table("unread", "");
    load(&table, &rows());
    let ids: Vec<String> = (0..3_000).map(|n| format!("id{n}")).collect();
    let mut broken = Population::of(&ids, 300);
    broken.1 = Some(Error::new(ErrorKind::Source, "the disk is gone"));
    let error = table.match_population(&mut broken, QUERY).err().unwrap();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Source, "the disk is gone"));

    let numbers = || Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let wide = RecordBatch::try_from_iter([("id", numbers()), ("other", numbers())]).unwrap();
    let wide = SourceBatch { source: "wide".into(), first_row: 1, batch: wide };
    for at in [0, 1, 9] {
        // What comes first is told, not the end of the disk.
        let mut population = Population::of(&ids, 300);
        population.0.insert(at, wide.clone());
        population.1 = Some(Error::new(ErrorKind::Source, "the disk is gone"));
        let error = table.match_population(&mut population, QUERY).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{}", error.chain());
        assert!(error.to_string().contains("wide"), "{error}");
    }
}

#[test]
fn a_match_counts_the_requests_that_it_repeats() {
    const REPEATED: usize = 3;
    let _beside = fresh("repeated");
    let mut between = Between::start();
    let store = between.open("repeated", "&metadata_ttl=60m&speculate_after=off");
    let table = store.table_with(&"t".parse().unwrap(), &TableOptions::default()).unwrap();
    load(&table, &rows());
    let overloaded = naming("id7").and(Condition::TrueForLimitedTimes(REPEATED));
    let refuse = RequestReaction::forge_with_error(DbError::Overloaded);
    between.rules(vec![RequestRule(overloaded, refuse)], vec![]);
    let mut ids = Population::of(&["id7".to_owned()], 1);
    let matched = table.match_population(&mut ids, QUERY).unwrap();
    assert_eq!(matched.counts().matched, 1);
    let sent = matched.requests().unwrap();
    assert_eq!([sent.asked, sent.answered, sent.repeated], [1, 1, REPEATED as u64]);
}
