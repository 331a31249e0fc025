//! Upserts: what was acknowledged is there, whole and in both directions, whatever happens
//! to the process or the disk.

use crate::common::{
    Batches, Fault, FaultyDisk, HarmedDisk, NumberedRows, Question, Row, ask, create,
    damaged_place, few_places, files, load, name, open_apart, rows_of_all_kinds, upsert,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Pick, Side, Window};
use idmatch_store::{Admin, Call, ErrorKind, MatchQuery, OpenTables, Store, Table};
use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

const TABLE: &str = "t";
const ROWS: NumberedRows = NumberedRows(20);

/// A memtable takes a few batches, so that segments are written all the time.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 100,
    chunk_bytes: 1_000,
    run_bytes: 3_500,
    population_bytes: 1_000,
    memtable_bytes: 20_000,
};

fn put(table: &Table, number: usize) -> idmatch_store::Result<()> {
    upsert(table, &mut Batches::of_rows(&ROWS.batch(number), 7))
}

/// Whether a batch is there: whole and in both directions, or not at all.
fn is_there(table: &Table, number: usize) -> bool {
    ROWS.are_in(table, number)
}

/// The batches below `end` that a store has, as a new process sees it.
fn batches_in(root: &Path, end: usize) -> BTreeSet<usize> {
    let store = EngineStore::open(root).unwrap();
    let Ok(table) = store.table(&name(TABLE)) else { return BTreeSet::new() };
    assert_eq!(table.verify().unwrap(), []);
    (0..end).filter(|number| is_there(&table, *number)).collect()
}

fn open(root: &Path) -> EngineStore {
    EngineStore::open_with(Arc::new(OsDisk), root, LIMITS).unwrap()
}

#[test]
fn an_upsert_is_seen_at_once_and_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let table = create(&store, TABLE, Keep::Last).unwrap();
    for number in 0..60 {
        put(&table, number).unwrap();
        assert!(is_there(&table, number), "{number}");
    }
    assert!((0..60).all(|number| is_there(&table, number)));
    assert_eq!(table.stats().unwrap().rows, (60 * ROWS.0) as u64);
    assert!(table.stats().unwrap().segments > 0, "nothing was written as a segment");
    assert_eq!(batches_in(dir.path(), 61).len(), 60);
    store.end_writing().unwrap();
    assert_eq!(batches_in(dir.path(), 61).len(), 60);
}

#[test]
fn a_reader_sees_upserts_when_it_refreshes() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path());
    let table = create(&writer, TABLE, Keep::Last).unwrap();
    put(&table, 0).unwrap();
    let reader = open_apart(dir.path());
    let seen = reader.table(&name(TABLE)).unwrap();
    for number in 1..60 {
        put(&table, number).unwrap();
        assert!(!is_there(&seen, number), "{number} is there before the refresh");
        reader.refresh(&Call::default()).unwrap();
        assert!((0..=number).all(|number| is_there(&seen, number)), "{number}");
    }
    // The reader may write when the writer has closed, and then the other way round.
    let error = put(&seen, 60).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    writer.end_writing().unwrap();
    put(&seen, 60).unwrap();
    writer.refresh(&Call::default()).unwrap();
    assert!((0..=60).all(|number| is_there(&table, number)));
    reader.end_writing().unwrap();
    put(&table, 61).unwrap();
    assert_eq!(batches_in(dir.path(), 62).len(), 62);
}

#[test]
fn many_threads_upsert_while_a_load_runs() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let table = create(&store, TABLE, Keep::Last).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let table = &table;
            scope.spawn(move || {
                for number in (thread..100).step_by(4) {
                    put(table, number).unwrap();
                    assert!(is_there(table, number), "{number}");
                }
            });
        }
        for number in 100..110 {
            load(&table, &mut Batches::of_rows(&ROWS.batch(number), 50)).unwrap();
        }
    });
    assert!((0..110).all(|number| is_there(&table, number)));
    drop((table, store));
    assert_eq!(batches_in(dir.path(), 111).len(), 110);
}

#[test]
fn a_backup_of_a_store_that_is_written_is_a_point_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let store = open(&root);
    let table = create(&store, TABLE, Keep::Last).unwrap();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| (0..200).for_each(|number| put(&table, number).unwrap()));
        let mut copies = 0;
        while !writing.is_finished() {
            // One question each: a batch may come between two.
            let is_there = |number: &usize| {
                let hot = Question::Answers(Side::PartnerId, format!("hot-{number}"), Window::ALL);
                !ask(&table, &hot).unwrap().is_empty()
            };
            let before = (0..200).take_while(is_there).count();
            let copy = dir.path().join(format!("copy-{copies}"));
            store.backup(&copy, &Call::default()).unwrap();
            let there = batches_in(&copy, 200);
            assert!(there.len() >= before, "{} of {before}", there.len());
            assert!(there.iter().copied().eq(0..there.len()), "a hole in {there:?}");
            copies += 1;
        }
        assert!(copies > 0);
    });
}

/// Upserts with faults: (batches that were acknowledged, batches that were tried).
fn run(root: &Path, disk: Arc<FaultyDisk>) -> (BTreeSet<usize>, usize) {
    let mut acknowledged = BTreeSet::new();
    let Ok(store) = EngineStore::open_with(disk, root, LIMITS) else { return (acknowledged, 0) };
    let Ok(table) = create(&store, TABLE, Keep::Last) else { return (acknowledged, 0) };
    for number in 0..40 {
        match put(&table, number) {
            Ok(()) => {
                acknowledged.insert(number);
            }
            Err(error) => {
                let words = error.chain();
                assert_eq!(error.kind(), ErrorKind::Io, "{words}");
                assert!(words.contains("injected fault"), "the cause is not told: {words}");
                assert!(words.contains(root.to_str().unwrap()), "no file is named: {words}");
            }
        }
        for seen in &acknowledged {
            if number % 10 == 9 {
                // Reading may meet the fault, but never answers wrongly.
                let hot = Question::Answers(Side::PartnerId, format!("hot-{seen}"), Window::ALL);
                if let Ok(rows) = ask(&table, &hot) {
                    assert_eq!(rows.len(), ROWS.0 / 2, "batch {seen}");
                }
            }
        }
    }
    store.end_writing().ok();
    (acknowledged, 40)
}

fn fail_everywhere(fault: Fault, length: u64) {
    for at in few_places() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        let disk = Arc::new(FaultyDisk::new(at..at.saturating_add(length), fault));
        let (acknowledged, tried) = run(&root, disk.clone());
        let there = batches_in(&root, 40);
        assert!(acknowledged.is_subset(&there), "operation {at}: {acknowledged:?}, {there:?}");
        // After the fault the same store takes everything again.
        let store = open(&root);
        let table = create(&store, TABLE, Keep::Last).unwrap();
        (0..40).for_each(|number| put(&table, number).unwrap());
        assert!((0..40).all(|number| is_there(&table, number)), "operation {at}");
        if !disk.was_hit() {
            assert!(at > 60 && tried == 40, "only {at} operations were counted");
            break;
        }
    }
}

#[test]
fn an_operation_fails_once() {
    fail_everywhere(Fault::Error(io::ErrorKind::Other), 1);
}

#[test]
fn a_write_is_torn_and_the_disk_stays_full() {
    fail_everywhere(Fault::TornWrite, u64::MAX);
}

#[test]
fn the_disk_is_full_for_a_while() {
    fail_everywhere(Fault::Error(io::ErrorKind::StorageFull), 5);
}

/// A closed store says how long its journal is: all damage to it is found.
#[test]
fn every_byte_of_a_journal_flipped_and_every_length() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = create(&store, TABLE, Keep::All).unwrap();
    for rows in rows_of_all_kinds(12).chunks(4) {
        upsert(&table, &mut Batches::of_rows(rows, 2)).unwrap();
    }
    store.end_writing().unwrap();
    let journals: Vec<_> = files(dir.path())
        .into_iter()
        .filter(|file| file.extension() == Some("log".as_ref()))
        .collect();
    assert_eq!(journals.len(), 1);
    let file = &journals[0];
    let bytes = std::fs::read(file).unwrap();
    let found = |harmed: Vec<u8>, harm: &str| {
        let disk = Arc::new(HarmedDisk::new(file, harmed));
        let error = EngineStore::open_on(disk, dir.path()).expect_err(harm);
        let words = error.chain();
        assert!(words.contains(file.to_str().unwrap()), "{harm}: {words}");
        let kind = error.kind();
        assert!(
            matches!(kind, ErrorKind::Corrupt | ErrorKind::UnsupportedFormat),
            "{harm}: {words}"
        );
        if kind == ErrorKind::Corrupt {
            assert_eq!(Path::new(damaged_place(&error).0), file, "{harm}: {words}");
        }
    };
    for at in 0..bytes.len() {
        for pattern in [0x01, 0x80, 0xff] {
            let mut harmed = bytes.clone();
            harmed[at] ^= pattern;
            found(harmed, &format!("byte {at} ^ {pattern:#x}"));
        }
        found(bytes[..at].to_vec(), &format!("{at} bytes are left"));
    }
}

#[test]
fn a_small_match_may_repeat_a_key_with_many_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = create(&store, TABLE, Keep::Last).unwrap();
    let rows: Vec<Row> = (0..300).map(|n| ("hot".to_owned(), format!("{n}"), n)).collect();
    upsert(&table, &mut Batches::of_rows(&rows, 100)).unwrap();
    let population = Arc::new(vec!["hot".to_owned(); 1_000]);
    let query = MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: false };
    let found = ask(&table, &Question::Match(population, query)).unwrap();
    assert_eq!(found.len(), 1 + 300 * 1_000);
}

/// A refresh that meets a fault shows nothing of it, and the next one shows all.
#[test]
fn a_failed_refresh_is_repeated_whole() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let writer = open(&root);
    let table = create(&writer, TABLE, Keep::Last).unwrap();
    (0..3).for_each(|number| put(&table, number).unwrap());
    writer.end_writing().unwrap();
    (3..5).for_each(|number| put(&table, number).unwrap());
    for at in 0u64.. {
        let disk = Arc::new(FaultyDisk::new(at..at + 1, Fault::Error(io::ErrorKind::Other)));
        let Ok(reader) = EngineStore::open_with(disk.clone(), &root, LIMITS) else { continue };
        if disk.was_hit() {
            continue;
        }
        let seen = reader.table(&name(TABLE)).unwrap();
        put(&table, 5).unwrap();
        while reader.refresh(&Call::default()).is_err() {
            let there: Vec<bool> = (0..6).map(|number| is_there(&seen, number)).collect();
            assert_eq!(there[..5], [true; 5], "operation {at}");
        }
        assert!((0..6).all(|number| is_there(&seen, number)), "operation {at}");
        if !disk.was_hit() {
            break;
        }
    }
}

#[test]
fn a_panic_of_one_thread_leaves_nobody_waiting() {
    // Making the table is over by then.
    for at in (50..240).step_by(10) {
        panics_once(at);
    }
}

/// Four threads upsert, in one of them, or while it flushes, the disk panics.
fn panics_once(at: u64) {
    const THREADS: usize = 4;
    const END: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::new(at..at + 1, Fault::Panic));
    let store = EngineStore::open_with(disk.clone(), dir.path(), LIMITS).unwrap();
    let table = create(&store, TABLE, Keep::Last).unwrap();
    let write = |thread: usize| {
        let mut done = Vec::new();
        for number in (thread..END).step_by(THREADS) {
            match catch_unwind(AssertUnwindSafe(|| put(&table, number))) {
                Ok(Ok(())) => done.push(number),
                Ok(Err(e)) => assert!(e.to_string().contains("panicked"), "{at}: {e}"),
                Err(_) => {}
            }
        }
        done
    };
    let acknowledged: Vec<usize> = std::thread::scope(|scope| {
        let write = &write;
        let threads: Vec<_> =
            (0..THREADS).map(|number| scope.spawn(move || write(number))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(disk.was_hit(), "{at}");
    store.end_writing().ok();
    drop((table, store));
    let there = batches_in(dir.path(), END);
    assert!(acknowledged.iter().all(|number| there.contains(number)), "{at}: {acknowledged:?}");
}
