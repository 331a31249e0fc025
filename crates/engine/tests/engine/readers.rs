//! Many read while one loads.

use crate::common::{
    Batches, Child, Paused, Question, Row, WhenDropped, ask, create, load, name, open_apart, role,
};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, Pick, Side, Window};
use idmatch_store::locks::Mutex;
use idmatch_store::{
    Call, ErrorFields, ErrorKind, Lookup, MatchQuery, OpenTables, Store, Table, now,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;

const LOADS: usize = 25;
const IDS: usize = 64;
const TABLE: &str = "t";

/// A load moves every id to a new partner_id of its own and to the one of all, and dates it
/// with the load's number: each answer shows which load it is of.
fn rows(load: usize) -> Vec<Row> {
    let own = (0..IDS).map(|n| (format!("{n}"), format!("p-{n}"), load as i64));
    let shared = (0..IDS).map(|n| (format!("{n}"), "shared".to_owned(), load as i64));
    own.chain(shared).collect()
}

/// The number of the last load, if all these answers are of one.
fn load_of(answers: &[Row]) -> i64 {
    let date = answers.first().expect("the first load came before the readers").2;
    assert!(answers.iter().all(|row| row.2 == date), "answers of two states: {answers:?}");
    date
}

fn matched(table: &Table, by: Side, keys: impl Iterator<Item = String>) -> Vec<Row> {
    let query = MatchQuery { by, pick: Pick::All, window: Window::ALL, positions: false };
    let rows = ask(table, &Question::Match(Arc::new(keys.collect()), query)).unwrap();
    rows.into_iter().skip(1).collect()
}

/// One look at a table from both sides; each question sees one state, and later ones no
/// older one. Returns the states seen.
fn look(table: &Table) -> [i64; 4] {
    let answers = |by, key: &str| ask(table, &Question::Answers(by, key.to_owned(), Window::ALL));
    let by_id = answers(Side::Id, "7").unwrap();
    assert_eq!(by_id.len(), 2);
    let by_partner_id = answers(Side::PartnerId, "shared").unwrap();
    assert_eq!(by_partner_id.len(), IDS);
    let ids = matched(table, Side::Id, (0..IDS).map(|n| format!("{n}")));
    assert_eq!(ids.len(), 2 * IDS);
    let partner_ids = matched(table, Side::PartnerId, (0..IDS).map(|n| format!("p-{n}")));
    assert_eq!(partner_ids.len(), IDS);
    let seen = [&by_id, &by_partner_id, &ids, &partner_ids].map(|answers| load_of(answers));
    assert!(seen.is_sorted(), "a later question saw an older state: {seen:?}");
    seen
}

/// A reader of its own, which sees what is published when it refreshes and nothing else.
fn read_until(root: &Path, mut is_over: impl FnMut(i64) -> bool) {
    let store = open_apart(root);
    let table = store.table(&name(TABLE)).unwrap();
    let mut last = 0;
    loop {
        let seen = look(&table);
        assert!(seen.iter().all(|load| *load == seen[0]), "it changed unasked: {seen:?}");
        assert!(seen[0] >= last, "state {} came after {last}", seen[0]);
        last = seen[0];
        if is_over(last) {
            return;
        }
        store.refresh(&Call::default()).unwrap();
    }
}

fn store_with_one_load(root: &Path) -> EngineStore {
    let store = EngineStore::open(root).unwrap();
    let table = create(&store, TABLE, Keep::Last).unwrap();
    load(&table, &mut Batches::of_rows(&rows(0), 10)).unwrap();
    store
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn reading_process() {
    let role = role();
    role.tell("reading");
    read_until(&role.store, |load| load == LOADS as i64);
}

#[test]
fn every_reader_sees_whole_states() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let store = store_with_one_load(&root);
    let mut other = Child::start("readers::reading_process", &root);
    assert_eq!(other.hear().as_deref(), Some("reading"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (done, store, root) = (&done, &store, &root);
        // Two with a view of their own, two that share the writer's.
        for _ in 0..2 {
            scope.spawn(|| read_until(root, |_| done.load(Relaxed)));
            scope.spawn(|| {
                let table = store.table(&name(TABLE)).unwrap();
                let mut last = 0;
                while !done.load(Relaxed) {
                    let seen = look(&table);
                    assert!(seen[0] >= last);
                    last = seen[3];
                }
            });
        }
        scope.spawn(move || {
            let _done = WhenDropped(done);
            let table = store.table(&name(TABLE)).unwrap();
            for number in 1..=LOADS {
                load(&table, &mut Batches::of_rows(&rows(number), 10)).unwrap();
            }
        });
    });
    other.finish();
    let table = store.table(&name(TABLE)).unwrap();
    assert_eq!(look(&table), [LOADS as i64; 4]);
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn refresh_shows_what_another_handle_did() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let writer = EngineStore::open(&root).unwrap();
    // Opened before there is anything.
    let reader = open_apart(&root);
    create(&writer, TABLE, Keep::Last).unwrap();
    assert_eq!(reader.table(&name(TABLE)).err().unwrap().kind(), ErrorKind::TableNotFound);
    reader.refresh(&Call::default()).unwrap();
    let there = reader.table(&name(TABLE)).unwrap();
    load(&writer.table(&name(TABLE)).unwrap(), &mut Batches::of_rows(&rows(3), 10)).unwrap();
    let question = Question::Answers(Side::PartnerId, "shared".to_owned(), Window::ALL);
    assert_eq!(ask(&there, &question).unwrap(), []);
    reader.refresh(&Call::default()).unwrap();
    assert_eq!(look(&there), [3; 4]);
}

/// A match describes the table as it was when it was made, whatever is loaded later.
#[test]
fn a_match_keeps_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_one_load(&dir.path().join("store"));
    let table = store.table(&name(TABLE)).unwrap();
    let query =
        MatchQuery { by: Side::PartnerId, pick: Pick::All, window: Window::ALL, positions: false };
    let mut population = Batches::of_population(&["shared".to_owned()]);
    let matched = table.match_population(&mut population, query).unwrap();
    let snapshot = table.snapshot().unwrap();
    load(&table, &mut Batches::of_rows(&rows(1), 10)).unwrap();
    let dates = Mutex::new(Vec::new());
    matched
        .write(&|batch: RecordBatch| {
            let seen_at = batch.column(2).as_primitive::<TimestampMillisecondType>();
            dates.lock().extend_from_slice(seen_at.values());
            Ok(())
        })
        .unwrap();
    assert_eq!(dates.into_inner(), vec![0; IDS]);
    let lookup = Lookup::by(Side::PartnerId);
    let answers = snapshot.lookup_many(&["shared"], lookup, &Call::default()).unwrap();
    let dates = answers.of(0).map(|(_, date)| date.millis_i64());
    assert_eq!(dates.collect::<Vec<_>>(), vec![0; IDS]);
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn writing_process() {
    let role = role();
    let store = EngineStore::open(&role.store).unwrap();
    let table = store.table(&name(TABLE)).unwrap();
    look(&table);
    let outcome = load(&table, &mut Batches::of_rows(&rows(9), 10));
    match outcome {
        Ok(()) => role.tell("loaded"),
        Err(e) => {
            role.tell(&format!("{}: {e}", e.kind().code()));
            let Some(ErrorFields::Busy { pid, program, since }) = e.fields() else {
                panic!("{:?}", e.fields())
            };
            let since = since.unwrap().millis();
            role.tell(&format!("{} {since} {}", pid.unwrap(), program.as_deref().unwrap()));
        }
    }
}

#[test]
fn a_second_writer_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let store = store_with_one_load(&root);
    let (asked, was_asked) = channel();
    let (resume, go_on) = channel();
    std::thread::scope(|scope| {
        let store = &store;
        scope.spawn(move || {
            let mut source = Paused { asked, go_on, rows: Batches::of_rows(&rows(1), 10) };
            load(&store.table(&name(TABLE)).unwrap(), &mut source).unwrap();
        });
        was_asked.recv().unwrap();
        let mut other = Child::start("readers::writing_process", &root);
        let told = other.hear().unwrap();
        let who = format!("busy: process {} (engine", std::process::id());
        assert!(told.starts_with(&who) && told.contains("is writing"), "{told}");
        assert!(told.contains(root.to_str().unwrap()), "{told}");
        let fields = other.hear().unwrap();
        let fields: Vec<&str> = fields.splitn(3, ' ').collect();
        let program = std::env::current_exe().unwrap();
        assert_eq!(fields[0], std::process::id().to_string());
        assert_eq!(fields[2], program.file_name().unwrap());
        // This process began to write in the last day.
        let (since, now) = (fields[1].parse::<u64>().unwrap(), now().millis());
        assert!((now - 86_400_000..=now).contains(&since), "{since}, {now}");
        other.finish();
        drop(resume);
    });
    assert_eq!(look(&store.table(&name(TABLE)).unwrap()), [1; 4]);
    let mut other = Child::start("readers::writing_process", &root);
    assert_eq!(other.hear().as_deref(), Some("loaded"));
    other.finish();
    store.refresh(&Call::default()).unwrap();
    assert_eq!(look(&store.table(&name(TABLE)).unwrap()), [9; 4]);
}
