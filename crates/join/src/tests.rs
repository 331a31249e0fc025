//! Chains of random tables and populations, against nested loops over the same rows.

use super::{Hop, JoinOptions, Joined, join};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMillisecondType, UInt32Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, RecordBatch, StringArray, TimestampMillisecondArray,
    UInt32Array,
};
use arrow_schema::{DataType, Field, Schema};
use idmatch_model::{Keep, Pick, SeenAt, Side, TableOptions, Window};
use idmatch_store::locks::Mutex;
use idmatch_store::{
    BatchSource, Call, Error, ErrorKind, Ingest, NoRejects, OpenTables, Result, SourceBatch, now,
};
use idmatch_testkit::MemoryStore;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

/// An id, a partner_id and a date, as numbers.
type TestRow = (u8, u8, u8);

struct TestBatches(VecDeque<RecordBatch>);

impl BatchSource for TestBatches {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let next = self.0.pop_front();
        Ok(next.map(|batch| SourceBatch { source: "test".into(), first_row: 1, batch }))
    }
}

/// A hop to a table, and its rows.
#[derive(Debug, Clone)]
struct TestHop {
    rows: Vec<TestRow>,
    by: Side,
    most: Option<u32>,
    window: (Option<u8>, Option<u8>),
}

impl TestHop {
    fn name(side: Side, number: u8) -> String {
        format!("{}{number}", if side == Side::Id { "i" } else { "p" })
    }

    fn window(&self) -> Window {
        let at = |day: Option<u8>| day.map(|day| SeenAt::from_millis(day.into()).unwrap());
        Window::new(at(self.window.0), at(self.window.1)).unwrap()
    }

    fn hop(&self, store: &MemoryStore, number: usize) -> Hop {
        let options = TableOptions { keep: Keep::All, ..TableOptions::default() };
        let table = store.table_with(&format!("t{number}").parse().unwrap(), &options).unwrap();
        let text = |names: Vec<String>| Arc::new(StringArray::from(names)) as ArrayRef;
        let names = |side, of: fn(&TestRow) -> u8| {
            text(self.rows.iter().map(|row| Self::name(side, of(row))).collect())
        };
        let dates = self.rows.iter().map(|row| i64::from(row.2));
        let dates = TimestampMillisecondArray::from_iter_values(dates).with_timezone("UTC");
        let batch = RecordBatch::try_from_iter([
            ("id", names(Side::Id, |row| row.0)),
            ("partner_id", names(Side::PartnerId, |row| row.1)),
            ("seen_at", Arc::new(dates)),
        ]);
        let mut no_rejects = NoRejects;
        let ingest = Ingest::new(true, now(), &mut no_rejects);
        table.load(&ingest.judged(&mut TestBatches([batch.unwrap()].into()))).unwrap();
        let pick = self.most.map_or(Pick::All, |most| match NonZeroU32::new(most) {
            Some(most) if most.get() > 1 => Pick::Newest(most),
            _ => Pick::Latest,
        });
        Hop { table: table.snapshot().unwrap(), by: self.by, pick, window: self.window() }
    }

    /// The answers of a key, newest first, ties by their bytes.
    fn answers(&self, key: &str) -> Vec<(String, u8)> {
        let mut newest = BTreeMap::<String, u8>::new();
        for (id, partner_id, date) in &self.rows {
            let names = [Self::name(Side::Id, *id), Self::name(Side::PartnerId, *partner_id)];
            let [asked, answer] = if self.by == Side::Id { [0, 1] } else { [1, 0] };
            let is_in = self.window.0.is_none_or(|since| since <= *date)
                && self.window.1.is_none_or(|until| *date < until);
            if names[asked] == key && is_in {
                let at = newest.entry(names[answer].clone()).or_default();
                *at = (*at).max(*date);
            }
        }
        let mut answers: Vec<_> = newest.into_iter().collect();
        answers.sort_by_key(|(_, date)| std::cmp::Reverse(*date));
        answers.truncate(self.most.map_or(usize::MAX, |most| most as usize));
        answers
    }

    fn knows(&self, key: &str) -> bool {
        !TestHop { window: (None, None), ..self.clone() }.answers(key).is_empty()
    }
}

/// Populations: keys of the first table, keys that it does not have, and values that are no identifier.
fn population() -> impl Strategy<Value = Vec<Option<String>>> {
    let key = prop_oneof![
        8 => (0u8..6, any::<bool>()).prop_map(|(n, id)| {
            Some(TestHop::name(if id { Side::Id } else { Side::PartnerId }, n))
        }),
        1 => Just(None),
        1 => Just(Some(String::new())),
        1 => Just(Some("x".repeat(1_025))),
    ];
    prop::collection::vec(key, 0..24)
}

fn hops() -> impl Strategy<Value = Vec<TestHop>> {
    let rows = prop::collection::vec((0u8..5, 0u8..5, 0u8..8), 0..20);
    let window = (prop::option::of(0u8..4), prop::option::of(4u8..9));
    let by = prop_oneof![Just(Side::Id), Just(Side::PartnerId)];
    let hop = (rows, by, prop::option::of(1u32..4), window);
    let hop = hop.prop_map(|(rows, by, most, window)| TestHop { rows, by, most, window });
    prop::collection::vec(hop, 1..4)
}

/// The population with the number of each row, and a tag, beside the key.
fn batches(population: &[Option<String>], batch_rows: usize) -> TestBatches {
    let batch = |(start, keys): (usize, &[Option<String>])| {
        let first = (start * batch_rows) as u32;
        let numbers = UInt32Array::from_iter_values(first..first + keys.len() as u32);
        let tags = keys.iter().map(|key| key.as_ref().map(|key| tag(key)));
        let tags: DictionaryArray<arrow_array::types::Int8Type> = tags.collect();
        let keys: ArrayRef = Arc::new(StringArray::from(keys.to_vec()));
        let fields = vec![
            Field::new("key", DataType::Utf8, true),
            Field::new("n", DataType::UInt32, false),
            Field::new("tag", tags.data_type().clone(), true),
        ];
        let columns = vec![keys, Arc::new(numbers) as ArrayRef, Arc::new(tags)];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    };
    let mut all: VecDeque<_> = population.chunks(batch_rows).enumerate().map(batch).collect();
    // A source tells its columns even where it has no rows.
    all.push_back(batch((0, &[])));
    TestBatches(all)
}

fn tag(key: &str) -> &'static str {
    if key.starts_with('i') { "own" } else { "else" }
}

/// Rows as text, by the names of their columns.
type NamedRow = BTreeMap<String, Option<String>>;

fn read(write: impl FnOnce(&dyn idmatch_store::MatchSink) -> Result<()>) -> Vec<NamedRow> {
    let rows = Mutex::new(Vec::new());
    let take = |batch: RecordBatch| {
        let mut shown = vec![NamedRow::new(); batch.num_rows()];
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            for (at, row) in shown.iter_mut().enumerate() {
                let value = column.is_valid(at).then(|| match field.data_type() {
                    DataType::Utf8 => column.as_string::<i32>().value(at).to_owned(),
                    DataType::UInt32 => column.as_primitive::<UInt32Type>().value(at).to_string(),
                    _ => column.as_primitive::<TimestampMillisecondType>().value(at).to_string(),
                });
                row.insert(field.name().clone(), value);
            }
        }
        rows.lock().extend(shown);
        Ok(())
    };
    write(&take).unwrap();
    rows.into_inner()
}

/// A path through the tables: the answers and dates of each.
type Path = Vec<(String, u8)>;

/// All paths of a key, and how many tables the longest came through.
fn paths(key: &str, hops: &[TestHop]) -> (Vec<Path>, usize) {
    let (mut paths, mut reached): (Vec<Path>, _) = (vec![Vec::new()], 0);
    for hop in hops {
        let mut longer = Vec::new();
        for path in paths {
            let from = path.last().map_or(key, |(answer, _)| answer);
            for answer in hop.answers(from) {
                longer.push(path.iter().cloned().chain([answer]).collect());
            }
        }
        paths = longer;
        if paths.is_empty() {
            break;
        }
        reached += 1;
    }
    (paths, reached)
}

fn expected_row(
    (key, number): (&Option<String>, usize),
    path: Option<&Path>,
    hops: &[TestHop],
    with_hops: bool,
) -> NamedRow {
    let first = hops[0].by.column();
    let last = hops.last().unwrap().by.other().column();
    let last = if last == first { format!("{last}_2") } else { last.to_owned() };
    let mut row = NamedRow::from([
        (first.to_owned(), key.clone()),
        ("n".to_owned(), Some(number.to_string())),
        ("tag".to_owned(), key.as_deref().map(|key| tag(key).to_owned())),
    ]);
    for (at, hop) in hops.iter().enumerate() {
        let answer = path.map(|path| path[at].0.clone());
        let date = path.map(|path| path[at].1.to_string());
        if at + 1 == hops.len() {
            row.insert(last.clone(), answer);
            row.insert("seen_at".to_owned(), date);
        } else if with_hops {
            let side = hop.by.other().column();
            row.insert(format!("hop_{}_{side}", at + 1), answer);
            row.insert(format!("hop_{}_seen_at", at + 1), date);
        }
    }
    row
}

fn reason(key: Option<&str>, reached: usize, first: &TestHop) -> String {
    match key {
        None => "null".to_owned(),
        Some("") => "empty".to_owned(),
        Some(key) if key.len() > 1_024 => "too long".to_owned(),
        Some(key) if reached == 0 && first.knows(key) => "outside the window".to_owned(),
        Some(_) if reached == 0 => "not in table".to_owned(),
        Some(_) => format!("lost at hop {}", reached + 1),
    }
}

fn run(population: &mut TestBatches, hops: &[TestHop], options: JoinOptions) -> Result<Joined> {
    let store = MemoryStore::default();
    let hops = hops.iter().enumerate().map(|(number, q)| q.hop(&store, number)).collect();
    join(population, hops, options, &Call::default())
}

/// Whether a match refuses this population: some rows are malformed, and none is an identifier.
fn is_refused(population: &[Option<String>]) -> bool {
    let is_id = |key: &&String| (1..=1_024).contains(&key.len());
    population.iter().flatten().next().is_some() && !population.iter().flatten().any(|k| is_id(&k))
}

proptest! {
    #[test]
    fn a_chain_gives_what_nested_loops_give(
        population in population(),
        hops in hops(),
        (keep_unmatched, with_hops, batch_rows) in (any::<bool>(), any::<bool>(), 1usize..9),
    ) {
        let options = JoinOptions { keep_unmatched, with_hops };
        let joined = run(&mut batches(&population, batch_rows), &hops, options);
        if is_refused(&population) {
            prop_assert_eq!(joined.err().map(|e| e.kind()), Some(ErrorKind::BadInput));
            return Ok(());
        }
        let joined = joined.unwrap();
        let (mut rows, mut lost, mut unmatched) = (Vec::new(), 0, Vec::new());
        for (number, key) in population.iter().enumerate() {
            let is_id = key.as_deref().filter(|key| (1..=1_024).contains(&key.len()));
            let (found, reached) = is_id.map_or((Vec::new(), 0), |key| paths(key, &hops));
            let row = |path| expected_row((key, number), path, &hops, with_hops);
            rows.extend(found.iter().map(|path| row(Some(path))));
            if found.is_empty() {
                lost += 1;
                if keep_unmatched {
                    rows.push(row(None));
                }
                let reason = reason(key.as_deref(), reached, &hops[0]);
                let mut told = NamedRow::from([("reason".to_owned(), Some(reason))]);
                for column in [hops[0].by.column(), "n", "tag"] {
                    told.insert(column.to_owned(), row(None)[column].clone());
                }
                unmatched.push(told);
            }
        }
        let counts = joined.counts();
        let written = rows.len() as u64;
        prop_assert_eq!(counts.population, population.len() as u64);
        prop_assert_eq!(counts.matched, population.len() as u64 - lost);
        prop_assert_eq!(counts.rows, written - if keep_unmatched { lost } else { 0 });
        prop_assert_eq!(counts.written, written);
        prop_assert_eq!(joined.hops().len(), hops.len());
        for two in joined.hops().windows(2) {
            prop_assert_eq!(two[0].rows, two[1].rows_in);
        }
        rows.sort();
        // Twice, because it can be read any number of times.
        for _ in 0..2 {
            let mut got = read(|sink| joined.write(sink, &Call::default()));
            if let [hop] = hops.as_slice() {
                check_order(&got, hop)?;
            }
            got.sort();
            prop_assert_eq!(&got, &rows);
            let got = read(|sink| joined.write_unmatched(sink, &Call::default()));
            prop_assert_eq!(&got, &unmatched);
        }
    }
}

/// The matches of a population row come newest first.
fn check_order(rows: &[NamedRow], hop: &TestHop) -> std::result::Result<(), TestCaseError> {
    let mut answers = HashMap::<&str, Vec<&str>>::new();
    for row in rows {
        if let Some(answer) = &row[hop.by.other().column()] {
            answers.entry(row["n"].as_deref().unwrap()).or_default().push(answer);
        }
    }
    for row in rows {
        let key = row[hop.by.column()].as_deref().unwrap_or_default();
        let expected: Vec<String> = hop.answers(key).into_iter().map(|(a, _)| a).collect();
        let got = answers.get(row["n"].as_deref().unwrap()).cloned().unwrap_or_default();
        prop_assert_eq!(expected, got);
    }
    Ok(())
}

fn one_table() -> TestHop {
    TestHop { rows: vec![(1, 1, 1)], by: Side::Id, most: None, window: (None, None) }
}

fn error_of(batches: Vec<RecordBatch>, hops: &[TestHop]) -> Error {
    run(&mut TestBatches(batches.into()), hops, JoinOptions::default()).err().unwrap()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn a_carried_column_with_a_name_of_the_result_is_an_error_before_the_match() {
    let ids: ArrayRef = Arc::new(StringArray::from(vec!["i1"]));
    for name in ["id", "partner_id", "seen_at"] {
        let error =
            error_of(vec![batch(vec![("key", ids.clone()), (name, ids.clone())])], &[one_table()]);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(&format!("\"{name} as NAME\"")), "{error}");
    }
}

#[test]
fn sources_whose_columns_differ_are_an_error_that_names_both_types() {
    let ids: ArrayRef = Arc::new(StringArray::from(vec!["i1"]));
    let number: ArrayRef = Arc::new(UInt32Array::from(vec![1]));
    let error = error_of(
        vec![
            batch(vec![("key", ids.clone()), ("c", ids.clone())]),
            batch(vec![("key", ids.clone()), ("c", number)]),
        ],
        &[one_table()],
    );
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"c\" of test is UInt32"), "{error}");
    let error = error_of(
        vec![
            batch(vec![("key", ids.clone()), ("c", ids.clone())]),
            batch(vec![("key", ids.clone())]),
        ],
        &[one_table()],
    );
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_chain_has_at_most_16_tables() {
    let ids: ArrayRef = Arc::new(StringArray::from(vec!["i1"]));
    for hops in [vec![], vec![one_table(); 17]] {
        let error = error_of(vec![batch(vec![("key", ids.clone())])], &hops);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("1 to 16"), "{error}");
    }
}

#[test]
fn a_cancelled_call_ends_a_chain() {
    let cancelled = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let store = MemoryStore::default();
    let hops = vec![one_table().hop(&store, 0)];
    let call = Call::default().cancelled_by(&cancelled);
    let population = &mut batches(&[Some("i1".to_owned())], 1);
    let outcome = join(population, hops, JoinOptions::default(), &call);
    assert_eq!(outcome.err().map(|e| e.kind()), Some(ErrorKind::Cancelled));
}
