//! Positional matches: hits and unmatched rows are told by the numbers of the population rows.

use crate::common::{Batches, Random, Row, create, erase, load, name, runs, seed, upsert};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMillisecondType, UInt32Type};
use arrow_array::{ArrayRef, BinaryArray, NullArray, RecordBatch};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Period, Pick, SeenAt, Side, TableOptions, Target, Window};
use idmatch_store::UnmatchedReason::{Malformed, NotFound, Null};
use idmatch_store::locks::Mutex;
use idmatch_store::{
    BatchSource, ErrorKind, Match, MatchQuery, OpenTables, Result, SourceBatch, Table,
    UnmatchedReason, now,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::vec;

const DAY: i64 = 86_400_000;

const QUERY: MatchQuery =
    MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: true };

/// A population row: null, an identifier, or what is none.
type Cell = Option<Vec<u8>>;

/// What becomes of a population row: its answers with their dates, or why there are none.
type Outcome = Result<Vec<(String, i64)>, UnmatchedReason>;

/// Batches of a population, as they are.
struct Population(vec::IntoIter<ArrayRef>);

impl Population {
    /// The cells in batches of these sizes, repeated as often as it takes.
    fn of(cells: &[Cell], sizes: &[usize]) -> Population {
        let (mut batches, mut rest): (Vec<ArrayRef>, _) = (Vec::new(), cells);
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (batch, others) = rest.split_at((*size).min(rest.len()));
            let batch: BinaryArray = batch.iter().map(Option::as_deref).collect();
            batches.push(Arc::new(batch));
            rest = others;
        }
        Population(batches.into_iter())
    }
}

impl BatchSource for Population {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let batch = |cells| {
            let batch = RecordBatch::try_from_iter_with_nullable([("population", cells, true)]);
            // What a source numbers for its messages is no position.
            SourceBatch { source: "test".into(), first_row: 77, batch: batch.unwrap() }
        };
        Ok(self.0.next().map(batch))
    }
}

fn cell(text: &str) -> Cell {
    Some(text.as_bytes().to_vec())
}

fn answer(text: &str, date: i64) -> (String, i64) {
    (text.to_owned(), date)
}

fn open(root: &Path, limits: MemoryLimits) -> EngineStore {
    EngineStore::open_with(Arc::new(OsDisk), root, limits).unwrap()
}

/// Matches, and tells what became of each row, from the hits and the unmatched rows: each row must be among
/// one of them, and the counts must tell the same.
fn outcomes(table: &Table, population: &mut Population, query: MatchQuery) -> Vec<Outcome> {
    told(table.match_population(population, query).unwrap().as_ref(), query)
}

fn told(matched: &dyn Match, query: MatchQuery) -> Vec<Outcome> {
    let hits = Mutex::new(BTreeMap::<u32, Vec<(String, i64)>>::new());
    matched
        .write(&|batch: RecordBatch| {
            let names: Vec<_> =
                batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
            assert_eq!(names, ["row", query.by.other().column(), "seen_at"]);
            let rows = batch.column(0).as_primitive::<UInt32Type>().values();
            let answers = batch.column(1).as_string::<i32>();
            let dates = batch.column(2).as_primitive::<TimestampMillisecondType>().values();
            let mut hits = hits.lock();
            for ((row, text), date) in rows.iter().zip(answers).zip(dates) {
                hits.entry(*row).or_default().push(answer(text.unwrap(), *date));
            }
            Ok(())
        })
        .unwrap();
    let hits = hits.into_inner();
    let counts = matched.counts();
    assert_eq!(counts.matched, hits.len() as u64);
    assert_eq!(counts.rows, hits.values().map(|answers| answers.len() as u64).sum::<u64>());
    let mut all: Vec<(u32, Outcome)> = Vec::new();
    matched
        .unmatched(&mut |row, reason| {
            let last = all.last().map(|(row, _)| *row);
            assert!(last.is_none_or(|last| last < row), "{row} follows {last:?}");
            all.push((row, Err(reason)));
            Ok(())
        })
        .unwrap();
    all.extend(hits.into_iter().map(|(row, answers)| (row, Ok(answers))));
    all.sort_by_key(|(row, _)| *row);
    assert_eq!(counts.population, all.len() as u64);
    assert!((0..).zip(&all).all(|(number, (row, _))| number == *row), "each row once");
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

const LONGEST: usize = 1024;

/// Rows, and a population with every kind of cell: two equal ones, and some that are found nowhere.
fn rows_and_cells() -> (Vec<Row>, Vec<Cell>) {
    let row = |id: &str, partner_id: &str, date| (id.to_owned(), partner_id.to_owned(), date);
    let long = "L".repeat(LONGEST);
    let rows = vec![
        row("a", "p1", 3),
        row("a", "p2", 5),
        row("a", "p3", 4),
        row("b", "q", 1),
        row(&long, "r", 2),
    ];
    let cells = vec![
        cell("a"),
        None,
        cell("b"),
        cell(""),
        Some(vec![b'a', 0xff]),
        cell("nobody"),
        cell("a"),
        cell(&long),
        cell(&"L".repeat(LONGEST + 1)),
        None,
        cell("b"),
    ];
    (rows, cells)
}

#[test]
fn each_row_is_a_hit_or_unmatched_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), MemoryLimits::default());
    let table = create(&store, "t", Keep::All).unwrap();
    let (rows, cells) = rows_and_cells();
    // The rows of "a" come from two segments and the memtable.
    load(&table, &mut Batches::of_rows(&rows[..1], 9)).unwrap();
    load(&table, &mut Batches::of_rows(&rows[1..2], 9)).unwrap();
    upsert(&table, &mut Batches::of_rows(&rows[2..], 9)).unwrap();
    let at = |millis| Some(SeenAt::from_millis(millis).unwrap());
    let window = Window::new(at(3), at(5)).unwrap();
    let (b, long) = (vec![answer("q", 1)], vec![answer("r", 2)]);
    let all_of_a = vec![answer("p2", 5), answer("p3", 4), answer("p1", 3)];
    let in_window = vec![answer("p3", 4), answer("p1", 3)];
    for (query, a, b, long) in [
        (QUERY, Ok(all_of_a.clone()), Ok(b.clone()), Ok(long.clone())),
        (MatchQuery { pick: Pick::Latest, ..QUERY }, Ok(all_of_a[..1].to_vec()), Ok(b), Ok(long)),
        (MatchQuery { window, ..QUERY }, Ok(in_window), Err(NotFound), Err(NotFound)),
    ] {
        let bad = || Err(Malformed);
        let expected: [Outcome; 11] = [
            a.clone(),
            Err(Null),
            b.clone(),
            bad(),
            bad(),
            Err(NotFound),
            a,
            long,
            bad(),
            Err(Null),
            b,
        ];
        for sizes in [&[20][..], &[1], &[3, 0, 1, 2], &[0, 4]] {
            let mut population = Population::of(&cells, sizes);
            assert_eq!(outcomes(&table, &mut population, query), expected, "{query:?} {sizes:?}");
        }
    }
}

#[test]
fn rows_that_retention_or_an_erasure_hides_are_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), MemoryLimits::default());
    let retention = Some(Period::parse("30d").unwrap());
    let options = TableOptions { keep: Keep::Last, retention };
    let table = store.table_with(&name("t"), &options).unwrap();
    let today = now().millis_i64();
    let row = |id: &str, age| (id.to_owned(), "p".to_owned(), today - age * DAY);
    load(&table, &mut Batches::of_rows(&[row("new", 1), row("erased", 1)], 9)).unwrap();
    upsert(&table, &mut Batches::of_rows(&[row("kept", 29), row("also erased", 2)], 9)).unwrap();
    let options = Some(Period::parse("10d").unwrap());
    table.set_retention(options).unwrap();
    let erased = ["erased", "also erased"].map(|id| Target::Id(id.to_owned()));
    erase(&table, &erased, today).unwrap();
    let cells = ["erased", "new", "kept", "also erased", "new"].map(cell);
    let new = || Ok(vec![answer("p", today - DAY)]);
    let expected = [Err(NotFound), new(), Err(NotFound), Err(NotFound), new()];
    assert_eq!(outcomes(&table, &mut Population::of(&cells, &[2]), QUERY), expected);
}

/// A population of numbered keys that comes in many batches, so that all threads get some. Every third key
/// is in the table; every tenth row is null and every eleventh malformed.
#[test]
fn numbers_survive_threads_and_spilling() {
    const ROWS: usize = 20_000;
    let key = |n: usize| match n % 2 {
        0 => format!("{n:032x}"),
        _ => format!("key {n}"),
    };
    let rows: Vec<Row> =
        (0..ROWS).step_by(3).map(|n| (key(n), format!("p{n}"), n as i64)).collect();
    // Each key twice, far apart.
    let number = |at: usize| at * 7_919 % ROWS;
    let cells: Vec<Cell> = (0..2 * ROWS)
        .map(|at| match at {
            _ if at % 10 == 0 => None,
            _ if at % 11 == 0 => Some(vec![0xff; at % 5 + 1]),
            _ => cell(&key(number(at))),
        })
        .collect();
    let expected: Vec<Outcome> = (0..2 * ROWS)
        .map(|at| match number(at) {
            _ if at % 10 == 0 => Err(Null),
            _ if at % 11 == 0 => Err(Malformed),
            n if n % 3 == 0 => Ok(vec![answer(&format!("p{n}"), n as i64)]),
            _ => Err(NotFound),
        })
        .collect();
    for (population_bytes, is_spilled) in [(512 << 20, false), (100_000, true)] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), MemoryLimits { population_bytes, ..Default::default() });
        let table = create(&store, "t", Keep::Last).unwrap();
        load(&table, &mut Batches::of_rows(&rows[ROWS / 6..], 999)).unwrap();
        upsert(&table, &mut Batches::of_rows(&rows[..ROWS / 6], 999)).unwrap();
        let mut population = Population::of(&cells, &[64, 1, 0, 333]);
        let matched = table.match_population(&mut population, QUERY).unwrap();
        assert_eq!(!matched.plan()[0].why.ends_with("batches: 1"), is_spilled);
        // Twice, because a match can be read any number of times.
        for _ in 0..2 {
            assert!(told(&*matched, QUERY) == expected, "limit {population_bytes}");
        }
    }
}

#[test]
fn random_matches_are_as_their_rows_say() {
    for run in 0..runs(60) {
        let mut random = Random::new(seed(), run);
        let dir = tempfile::tempdir().unwrap();
        let population_bytes = [100, 2_000, 512 << 20][random.below(3)];
        let store = open(dir.path(), MemoryLimits { population_bytes, ..Default::default() });
        let keep = [Keep::Last, Keep::All][random.below(2)];
        let table = create(&store, "t", keep).unwrap();
        let count = random.below(300);
        // Each date once: ties are the business of other tests.
        let mut dates: Vec<i64> = (0..count as i64).collect();
        random.shuffle(&mut dates);
        let mut row =
            |date| (format!("i{}", random.below(60)), format!("p{}", random.below(60)), date);
        let rows: Vec<Row> = dates.into_iter().map(&mut row).collect();
        for rows in rows.chunks(100) {
            match random.below(2) {
                0 => load(&table, &mut Batches::of_rows(rows, 30)).unwrap(),
                _ => upsert(&table, &mut Batches::of_rows(rows, 30)).unwrap(),
            }
        }
        let by = Side::BOTH[random.below(2)];
        let pick = [Pick::All, Pick::Latest][random.below(2)];
        let window = match random.below(2) {
            0 => Window::ALL,
            _ => {
                let from = random.below(count + 1);
                let until = from + random.below(count + 1);
                let at = |millis: usize| SeenAt::from_millis(millis as i64).unwrap();
                Window::new(Some(at(from)), Some(at(until))).unwrap()
            }
        };
        let prefix = if by == Side::Id { 'i' } else { 'p' };
        let mut cell = || match random.below(12) {
            0 => None,
            1 => Some(Vec::new()),
            2 => Some(vec![0xc3]),
            3 => Some(vec![b'x'; LONGEST + 1]),
            _ => cell(&format!("{prefix}{}", random.below(80))),
        };
        let cells: Vec<Cell> = (0..200).map(|_| cell()).collect();
        let expected: Vec<Outcome> =
            cells.iter().map(|cell| outcome(cell, &rows, keep, (by, pick, window))).collect();
        let sizes = [random.below(4), 1 + random.below(90)];
        let query = MatchQuery { by, pick, window, positions: true };
        let got = outcomes(&table, &mut Population::of(&cells, &sizes), query);
        assert_eq!(got, expected, "run {run}: {keep:?} {query:?}, limit {population_bytes}");
    }
}

/// What becomes of a cell, worked out from all rows.
fn outcome(
    cell: &Cell,
    rows: &[Row],
    keep: Keep,
    (by, pick, window): (Side, Pick, Window),
) -> Outcome {
    let bytes = cell.as_deref().ok_or(Null)?;
    if bytes.is_empty() || bytes.len() > LONGEST {
        return Err(Malformed);
    }
    let key = std::str::from_utf8(bytes).map_err(|_| Malformed)?;
    let is_inside = |date: i64| window.contains(SeenAt::from_millis(date).unwrap());
    let mut newest = BTreeMap::<&str, i64>::new();
    for (id, partner_id, date) in rows {
        let (this, other) = if by == Side::Id { (id, partner_id) } else { (partner_id, id) };
        if this == key && (keep == Keep::Last || is_inside(*date)) {
            let newest = newest.entry(other).or_insert(*date);
            *newest = (*newest).max(*date);
        }
    }
    let mut answers: Vec<_> = newest
        .into_iter()
        .filter(|(_, date)| is_inside(*date))
        .map(|(other, date)| answer(other, date))
        .collect();
    answers.sort_by_key(|(_, date)| -date);
    if pick == Pick::Latest {
        answers.truncate(1);
    }
    if answers.is_empty() { Err(NotFound) } else { Ok(answers) }
}

#[test]
fn a_population_has_at_most_as_many_rows_as_there_are_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), MemoryLimits::default());
    let table = create(&store, "t", Keep::Last).unwrap();
    // A column of nulls takes no memory.
    let batches: Vec<ArrayRef> = vec![
        Arc::new(BinaryArray::from_iter_values([b"a"])),
        Arc::new(NullArray::new(u32::MAX as usize)),
    ];
    let mut population = Population(batches.into_iter());
    let error = table.match_population(&mut population, QUERY).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("4294967295 rows"), "{error}");
}

#[test]
fn a_match_without_positions_says_that_it_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), MemoryLimits::default());
    let table = create(&store, "t", Keep::Last).unwrap();
    let query = MatchQuery { positions: false, ..QUERY };
    let mut population = Population::of(&[cell("a"), None], &[1]);
    let matched = table.match_population(&mut population, query).unwrap();
    let error = matched.unmatched(&mut |_, _| panic!("a row")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("positional"), "{error}");
}
