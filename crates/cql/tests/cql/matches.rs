//! Matches whose population and results are larger than the memory that they may take.

use crate::common::{Batches, fresh, load, open_with};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use idmatch_model::{Pick, Side, TableOptions, Window};
use idmatch_store::{BatchSource, Error, ErrorKind, MatchQuery, Result, SourceBatch, Store, Table};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

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
fn table(keyspace: &str, options: &str) -> Arc<dyn Table> {
    let store = open_with(keyspace, options);
    store.create_table(&"t".parse().unwrap(), &TableOptions::default()).unwrap()
}

fn rows() -> Vec<Row> {
    let of = |n: i64| {
        let row = |value: &str| (format!("id{n}"), format!("{value}{n}"), THEN + n);
        if n % 3 == 0 { vec![row("a"), row("b")] } else { vec![row("a")] }
    };
    (0..3_000).flat_map(of).collect()
}

/// The rows, what was counted, and how many requests it took.
fn found(table: &dyn Table, mut population: Population) -> (Vec<Row>, [u64; 3], u64) {
    let matched = table.match_population(&mut population, QUERY).unwrap();
    let rows = Mutex::new(Vec::new());
    let take = |batch: RecordBatch| {
        let (keys, values) =
            (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
        let dates = batch.column(2).as_primitive::<TimestampMillisecondType>();
        for ((key, value), date) in keys.iter().zip(values).zip(dates) {
            let row = (key.unwrap().to_owned(), value.unwrap().to_owned(), date.unwrap());
            rows.lock().unwrap().push(row);
        }
        Ok(())
    };
    matched.write(&take).unwrap();
    // It can be read again.
    let again = Mutex::new(0);
    let count = |batch: RecordBatch| {
        *again.lock().unwrap() += batch.num_rows();
        Ok(())
    };
    matched.write(&count).unwrap();
    let (mut rows, again) = (rows.into_inner().unwrap(), again.into_inner().unwrap());
    rows.sort_unstable();
    let counts = matched.counts();
    assert_eq!((rows.len(), again as u64), (counts.rows as usize, counts.rows));
    let requests = matched.plan().iter().map(|step| step.requests).sum();
    (rows, [counts.population, counts.matched, counts.rows], requests)
}

#[test]
fn a_population_may_be_larger_than_memory() {
    let _beside = fresh("matches");
    load(table("matches", "").as_ref(), &rows());
    // Ids that are there, in several tranches some of them, and ids that are not.
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
    // Each of the 17 batches is a tranche, which reads all 16 buckets; every four are; all are one.
    for (options, tranches) in [("&match_memory=1", 17), ("&match_memory=64k", 5), ("", 1)] {
        let table = table("matches", &format!("&match_reads=buckets{options}"));
        let given = found(table.as_ref(), Population::of(&ids, 300));
        assert_eq!(given.1, counts, "{options}");
        assert_eq!(given.0, expected, "{options}");
        assert_eq!(given.2, tranches * 16, "{options}");
    }
}

#[test]
fn a_population_of_long_ids_is_read_in_more_tranches() {
    const BATCHES: usize = 12;
    let _beside = fresh("long_ids");
    // Their rows alone would be one tranche.
    let table = table("long_ids", "&match_reads=buckets&match_memory=256k");
    let ids: Vec<String> = (0..300 * BATCHES).map(|n| format!("{n:0>600}")).collect();
    let rows: Vec<Row> = ids.iter().map(|id| (id.clone(), "p".to_owned(), THEN)).collect();
    load(table.as_ref(), &rows);
    let given = found(table.as_ref(), Population::of(&ids, 300));
    assert_eq!(given.1, [ids.len() as u64; 3]);
    assert!(given.2 > 16, "{} requests", given.2);
}

#[test]
fn a_population_that_cannot_be_read_is_an_error() {
    let _beside = fresh("unread");
    let table = table("unread", "");
    load(table.as_ref(), &rows());
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
