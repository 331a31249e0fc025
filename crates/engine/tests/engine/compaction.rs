//! Compaction: answers stay, rows that nobody may see go, and so do files.

use crate::common::{
    Batches, Fault, FaultyDisk, HookedDisk, Hooks, Row, ask, assert_nothing_leaked, create, files,
    load, name, questions, rows_of_all_kinds, upsert,
};
use idmatch_engine::disk::{NewFile, OsDisk};
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Period, Side, TableOptions, Window};
use idmatch_store::locks::Mutex;
use idmatch_store::{Ingest, OpenTables, Table, now};
use idmatch_testkit::MemoryStore;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

pub(crate) const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 40,
    chunk_bytes: 1_000,
    run_bytes: 60_000,
    population_bytes: 1_000,
    memtable_bytes: 8_000,
};

pub(crate) fn open(root: &Path) -> EngineStore {
    EngineStore::open_with(Arc::new(OsDisk), root, LIMITS).unwrap()
}

/// Loads and upserts by turns.
fn fill(table: &Table, rows: &[Row]) {
    for (number, rows) in rows.chunks(23).enumerate() {
        match number % 3 {
            0 => load(table, &mut Batches::of_rows(rows, 10)).unwrap(),
            _ => upsert(table, &mut Batches::of_rows(rows, 10)).unwrap(),
        }
    }
}

#[test]
fn answers_stay_and_segments_get_few() {
    for keep in [Keep::Last, Keep::All] {
        let dir = tempfile::tempdir().unwrap();
        let rows = rows_of_all_kinds(600);
        let (reference, store) = (MemoryStore::new(), open(dir.path()));
        let expected = create(&reference, "t", keep).unwrap();
        let table = create(&store, "t", keep).unwrap();
        load(&expected, &mut Batches::of_rows(&rows, 100)).unwrap();
        fill(&table, &rows);
        let before = table.stats().unwrap();
        table.compact().unwrap();
        let after = table.stats().unwrap();
        assert_eq!(after.memtable_rows, 0);
        assert!(after.segments < before.segments, "{before:?} {after:?}");
        assert_eq!(after.rows, expected.stats().unwrap().rows, "each row once, {keep:?}");
        let asked: Vec<Row> = rows.iter().step_by(7).cloned().collect();
        for again in [false, true] {
            let reopened = open(dir.path());
            let table = reopened.table(&name("t")).unwrap();
            for question in questions(&asked, &[Window::ALL]) {
                let right = ask(&expected, &question).unwrap();
                assert_eq!(ask(&table, &question).unwrap(), right, "{again}: {question:?}");
            }
            assert_eq!(table.verify().unwrap(), []);
        }
        // Once more changes nothing.
        table.compact().unwrap();
        assert_eq!(table.stats().unwrap(), after);
        store.end_writing().unwrap();
        assert_nothing_leaked(dir.path());
    }
}

#[test]
fn rows_older_than_the_retention_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let options = TableOptions { keep: Keep::All, retention: Some(Period::parse("30d").unwrap()) };
    let table = store.table_with(&name("t"), &options).unwrap();
    let day = 86_400_000;
    let today = now().millis_i64();
    let rows: Vec<Row> =
        (0..60).map(|n| (format!("a{n}"), format!("b{}", n % 7), today - n * day - 1)).collect();
    let ingest_all = |rows: &[Row]| {
        let mut source = Batches::of_rows(rows, 10);
        let mut rejects = crate::common::NoRejects;
        table.upsert(&Ingest::new(true, now(), &mut rejects).judged(&mut source), None).unwrap();
    };
    ingest_all(&rows);
    assert_eq!(table.stats().unwrap().rows, 60);
    table.compact().unwrap();
    assert_eq!(table.stats().unwrap().rows, 30);
    assert!(table.stats().unwrap().oldest.unwrap().millis_i64() >= today - 30 * day);
    assert_eq!(table.verify().unwrap(), []);
}

/// Loads of a row each, as many as make a pile of segments many times over.
fn load_one_by_one(table: &Table, name: &str) {
    for number in 0..400 {
        let row = (format!("{name}{number}"), format!("p{number}"), number);
        load(table, &mut Batches::of_rows(&[row], 1)).unwrap();
    }
}

#[test]
fn loads_compact_backlog() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let table = create(&store, "t", Keep::Last).unwrap();
    load_one_by_one(&table, "a");
    let stats = table.stats().unwrap();
    assert_eq!(stats.rows, 400);
    assert!(stats.segments < 200, "{stats:?}");
    assert_eq!(table.verify().unwrap(), []);
    assert_nothing_leaked(dir.path());
}

#[test]
fn writers_do_not_wait_for_merges_that_fail() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut Batches::of_rows(&[("bad".to_owned(), "p".to_owned(), 1)], 1)).unwrap();
    for file in files(dir.path()).iter().filter(|file| file.to_string_lossy().contains("segments"))
    {
        let mut bytes = std::fs::read(file).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(file, bytes).unwrap();
    }
    load_one_by_one(&table, "a");
    for number in 0..200 {
        let row = (format!("b{number}"), format!("p{number}"), number);
        upsert(&table, &mut Batches::of_rows(&[row], 1)).unwrap();
    }
    assert!(table.compact().is_err());
    for (id, partner_id) in [("a7", "p7"), ("b199", "p199")] {
        assert!(table.last_seen(id, partner_id).unwrap().is_some(), "{id}");
    }
}

#[test]
fn readers_go_on_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let rows = rows_of_all_kinds(300);
    let store = open(dir.path());
    let table = create(&store, "t", Keep::Last).unwrap();
    fill(&table, &rows);
    let asked: Vec<Row> = rows.iter().step_by(11).cloned().collect();
    let questions = questions(&asked, &[Window::ALL]);
    let right: Vec<Vec<Row>> =
        questions.iter().map(|question| ask(&table, question).unwrap()).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for same_process in [true, false] {
            let (questions, right, done, table) = (&questions, &right, &done, &table);
            let root = dir.path();
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    let other = open(root);
                    let table = match same_process {
                        true => table.clone(),
                        false => other.table(&name("t")).unwrap(),
                    };
                    for (question, right) in questions.iter().zip(right) {
                        assert_eq!(ask(&table, question).unwrap(), *right, "{question:?}");
                    }
                }
            });
        }
        for _ in 0..10 {
            // The same rows again: nothing changes but the files.
            fill(&table, &rows);
            table.compact().unwrap();
        }
        done.store(true, Relaxed);
    });
}

#[test]
fn a_failed_compaction_changes_nothing() {
    let rows = rows_of_all_kinds(120);
    for at in 0u64.. {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        {
            let store = open(&root);
            fill(&create(&store, "t", Keep::Last).unwrap(), &rows);
            store.end_writing().unwrap();
        }
        let disk = Arc::new(FaultyDisk::new(at..at + 1, Fault::Error(io::ErrorKind::Other)));
        if let Ok(store) = EngineStore::open_with(disk.clone(), &root, LIMITS) {
            let table = store.table(&name("t")).unwrap();
            if table.compact().is_err() {
                assert_eq!(table.verify().unwrap_or_default(), [], "operation {at}");
                // The fault is over: the same handle does it.
                table.compact().unwrap();
            }
            store.end_writing().ok();
        }
        let store = open(&root);
        let table = store.table(&name("t")).unwrap();
        assert_eq!(table.verify().unwrap(), [], "operation {at}");
        let reference = MemoryStore::new();
        let expected = create(&reference, "t", Keep::Last).unwrap();
        load(&expected, &mut Batches::of_rows(&rows, 100)).unwrap();
        for question in questions(&rows[..4], &[Window::ALL]) {
            let right = ask(&expected, &question).unwrap();
            assert_eq!(ask(&table, &question).unwrap(), right, "operation {at}");
        }
        if !disk.was_hit() {
            assert!(at > 40, "only {at} operations were counted");
            break;
        }
    }
}

#[test]
fn a_key_with_more_rows_than_are_sorted_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let limits = MemoryLimits { run_bytes: 10_000, memtable_bytes: 30_000, ..LIMITS };
    let store = EngineStore::open_with(Arc::new(OsDisk), dir.path(), limits).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    let rows: Vec<Row> = (0..2_000).map(|n| (format!("{n}"), "hot".to_owned(), n)).collect();
    load(&table, &mut Batches::of_rows(&rows, 100)).unwrap();
    for rows in rows.chunks(200) {
        upsert(&table, &mut Batches::of_rows(rows, 100)).unwrap();
    }
    // Neither of them ends with one segment, but both end.
    table.compact().unwrap();
    table.compact().unwrap();
    let answers = crate::common::Question::Answers(Side::PartnerId, "hot".to_owned(), Window::ALL);
    assert_eq!(ask(&table, &answers).unwrap().len(), 2_000);
    assert_eq!(table.verify().unwrap(), []);
    assert_nothing_leaked(dir.path());
}

#[test]
fn a_compaction_ends_while_others_write() {
    // Larger segments have fewer ranges. Each is one more publication, whose cost grows with the table.
    let limits = MemoryLimits { segment_rows: 400, ..LIMITS };
    for _ in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let store = EngineStore::open_with(Arc::new(OsDisk), dir.path(), limits).unwrap();
        let table = create(&store, "t", Keep::Last).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (table, is_done) = (&table, &is_done);
            for writer in 0..2 {
                scope.spawn(move || {
                    // Always the same rows: a table that grows takes longer each time.
                    for number in (0..50).cycle() {
                        let row = |n: i64| (format!("{writer}-{number}-{n}"), format!("p{n}"), n);
                        let rows: Vec<Row> = (0..20).map(row).collect();
                        upsert(table, &mut Batches::of_rows(&rows, 20)).unwrap();
                        if is_done.load(Relaxed) {
                            break;
                        }
                    }
                });
            }
            for _ in 0..5 {
                table.compact().unwrap();
            }
            is_done.store(true, Relaxed);
        });
        assert_eq!(table.verify().unwrap(), []);
    }
}

/// A compaction of two directions makes fewer segments, newcomers included. Newcomers come until then.
const MOST_MADE: usize = 20;

/// Has another thread write before the compacting thread makes a segment.
#[derive(Debug, Default)]
struct Newcomers {
    compacting: OnceLock<ThreadId>,
    made: AtomicUsize,
    /// Begins a turn of the other thread, and its end.
    turns: Mutex<Option<(SyncSender<()>, Receiver<()>)>>,
}

impl Hooks for Newcomers {
    const IS_SHARED: bool = true;

    fn made(&self, file: &Path, made: Box<dyn NewFile>) -> Box<dyn NewFile> {
        let is_compacting = self.compacting.get() == Some(&std::thread::current().id());
        let is_segment = file.extension().is_some_and(|ending| ending == "seg");
        if is_compacting && is_segment && self.made.fetch_add(1, Relaxed) < MOST_MADE {
            let turns = self.turns.lock();
            let (begin, end) = turns.as_ref().unwrap();
            begin.send(()).unwrap();
            end.recv().unwrap();
        }
        made
    }
}

/// While each segment is made, more segments come than upserts may meet.
#[test]
fn a_compaction_ends_where_newcomers_never_get_few() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Arc::new(HookedDisk(Newcomers::default())));
    let limits = MemoryLimits { segment_rows: 10_000, ..LIMITS };
    let store = EngineStore::open_with(disk.clone(), dir.path(), limits).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    let load_rows = |loads| {
        for _ in 0..loads {
            let row = ("id".to_owned(), "partner".to_owned(), 1);
            load(&table, &mut Batches::of_rows(&[row], 1)).unwrap();
        }
    };
    // With more than 64, a load would compact.
    load_rows(60);
    let (begin, begun) = sync_channel(0);
    let (end, ended) = sync_channel(0);
    disk.0.turns.lock().replace((begin, ended));
    std::thread::scope(|scope| {
        let load_rows = &load_rows;
        scope.spawn(move || {
            while begun.recv().is_ok() {
                load_rows(70);
                end.send(()).unwrap();
            }
        });
        disk.0.compacting.set(std::thread::current().id()).unwrap();
        let compacted = table.compact();
        // The other thread ends, also where the compaction failed.
        disk.0.turns.lock().take();
        compacted.unwrap();
    });
    let made = disk.0.made.load(Relaxed);
    assert!((3..MOST_MADE).contains(&made), "{made} segments, 2 of them without newcomers");
    assert_eq!(table.verify().unwrap(), []);
}

/// The most bytes that the files of a store take. They grow until one is removed.
#[derive(Debug)]
struct Peak(Mutex<(PathBuf, u64)>);

impl Hooks for Peak {
    const IS_SHARED: bool = true;

    fn removing(&self, _: &Path) {
        let mut peak = self.0.lock();
        peak.1 = peak.1.max(bytes_of(&peak.0));
    }
}

fn bytes_of(root: &Path) -> u64 {
    files(root).into_iter().filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
}

/// Merges are about one range at a time, and what they merged goes at once.
#[test]
fn a_compaction_needs_little_spare_disk() {
    let dir = tempfile::tempdir().unwrap();
    let limits = MemoryLimits { segment_rows: 500, run_bytes: 1 << 20, ..LIMITS };
    let disk = Arc::new(HookedDisk(Peak(Mutex::new((dir.path().to_owned(), 0)))));
    let store = EngineStore::open_with(disk.clone(), dir.path(), limits).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    let row = |number: i64| (format!("id-{number}"), format!("partner-{number}"), number);
    let rows: Vec<Row> = (0..30_000).map(row).collect();
    load(&table, &mut Batches::of_rows(&rows[..20_000], 5_000)).unwrap();
    for rows in rows[20_000..].chunks(2_500) {
        load(&table, &mut Batches::of_rows(rows, 5_000)).unwrap();
    }
    let before = bytes_of(dir.path());
    disk.0.0.lock().1 = 0;
    table.compact().unwrap();
    let most = disk.0.0.lock().1;
    assert_eq!(table.stats().unwrap().segments, 128, "64 ranges of each direction");
    assert!(most >= before, "{most} bytes at the peak, {before} before");
    let largest = before.max(bytes_of(dir.path()));
    assert!(most <= largest + largest / 5, "{most} bytes at the peak, {largest} before or after");
}
