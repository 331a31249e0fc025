//! Renaming, swapping and dropping tables: beside loads, upserts, erasures, compactions and snapshots.

use crate::common::{
    Batches, GatedDisk, Paused, Row, assert_nothing_leaks_for_long, count_rows, create, erase,
    load, name, open_apart, upsert, wait_for_removals,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Period, Side, Target};
use idmatch_store::{Admin, Call, ErrorKind, Lookup, OpenTables, Result, Store, Table};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;

/// A memtable takes a few dozens of batches.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 200,
    chunk_bytes: 2_000,
    run_bytes: 4 << 20,
    population_bytes: 2_000,
    memtable_bytes: 40_000,
};

fn open(root: &Path) -> EngineStore {
    EngineStore::open_with(Arc::new(OsDisk), root, LIMITS).unwrap()
}

fn row(number: usize) -> Row {
    (format!("i{number}"), format!("p{number}"), 1_000 + number as i64)
}

fn rows(numbers: std::ops::Range<usize>) -> Batches {
    Batches::of_rows(&numbers.map(row).collect::<Vec<_>>(), 7)
}

/// How many of the rows with these numbers a table has, both directions alike.
fn count(table: &Table, numbers: std::ops::Range<usize>) -> usize {
    count_rows(table, &numbers.map(row).collect::<Vec<_>>())
}

/// What fails for want of the table.
fn assert_gone<T>(outcome: Result<T>) {
    let Err(error) = outcome else { panic!("a table that was dropped is still written") };
    assert_eq!(error.kind(), ErrorKind::TableNotFound, "{error}");
}

#[test]
fn a_dropped_table_is_gone_but_for_snapshots_and_its_files_go_after_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (call, [a, other]) =
        (Call::default(), ["a", "other"].map(|t| create(&store, t, Keep::Last)));
    let (a, other) = (a.unwrap(), other.unwrap());
    load(&a, &mut rows(0..300)).unwrap();
    upsert(&a, &mut rows(300..320)).unwrap();
    upsert(&other, &mut rows(0..5)).unwrap();
    let snapshot = store.snapshot(&call).unwrap();
    let shown = snapshot.table_named(&name("a"), &call).unwrap();

    store.drop_table(&name("a"), &call).unwrap();
    assert_gone(store.drop_table(&name("a"), &call));
    assert_gone(store.table(&name("a")));
    assert_gone(load(&a, &mut rows(0..1)));
    assert_gone(upsert(&a, &mut rows(0..1)));
    assert_gone(erase(&a, &[Target::Id("i1".into())], 5_000));
    let found = shown.lookup_many(&["i7", "i310"], Lookup::by(Side::Id), &call);
    assert_eq!([0, 1].map(|key| found.as_ref().unwrap().of(key).count()), [1, 1]);

    // Another process reads the journal, which has rows of the dropped table.
    assert_eq!(open_apart(dir.path()).tables().unwrap(), [name("other")]);
    // A new table of that name has nothing of the old one.
    let again = create(&store, "a", Keep::All).unwrap();
    assert_eq!(count(&again, 0..320), 0);
    drop((shown, snapshot));
    store.close().unwrap();
    drop((store, a, other, again));
    let store = open(dir.path());
    assert_eq!(count(&store.table(&name("other")).unwrap(), 0..5), 5);
    assert_eq!(count(&store.table(&name("a")).unwrap(), 0..320), 0);
    let other = store.table(&name("other")).unwrap();
    other.compact().unwrap();
    wait_for_removals(dir.path());
    drop((store, other));
    assert_nothing_leaks_for_long(dir.path());
}

#[test]
fn erasures_outlive_tables_and_go_with_names() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let call = Call::default();
    let erased = |number: usize| [Target::Id(row(number).0)];
    let table = |text: &str| create(&store, text, Keep::Last).unwrap();
    erase(&table("a"), &erased(1), 9_000).unwrap();
    erase(&table("b"), &erased(2), 9_000).unwrap();

    store.drop_table(&name("a"), &call).unwrap();
    load(&table("a"), &mut rows(0..4)).unwrap();
    assert_eq!(count(&table("a"), 0..4), 3, "the next table of the name obeys");

    // The table obeys the erasures of both its names, and so does the next one of the old name.
    store.drop_table(&name("b"), &call).unwrap();
    store.rename_table(&name("a"), &name("b"), &call).unwrap();
    assert_eq!(count(&table("b"), 0..4), 2);
    upsert(&table("a"), &mut rows(0..4)).unwrap();
    assert_eq!(count(&table("a"), 0..4), 3);

    erase(&table("a"), &erased(3), 9_000).unwrap();
    store.swap_tables(&name("a"), &name("b"), &call).unwrap();
    for (text, there) in [("a", 1), ("b", 1)] {
        assert_eq!(count(&table(text), 0..4), there, "{text}");
        assert_eq!(table(text).stats().unwrap().erasures, 3, "{text}");
        table(text).compact().unwrap();
        assert_eq!(count(&table(text), 0..4), there, "{text}");
        assert_eq!(table(text).verify().unwrap(), [], "{text}");
    }
    let taken = store.rename_table(&name("a"), &name("b"), &call).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::TableExists, "{taken}");

    // A backup has what names without a table keep.
    store.drop_table(&name("b"), &call).unwrap();
    let other = tempfile::tempdir().unwrap();
    let (backup, restored) = (other.path().join("backup"), other.path().join("restored"));
    store.backup(&backup, &call).unwrap();
    let restored = EngineStore::restore(&backup, &restored, true, &Call::default()).unwrap();
    let b = create(&restored, "b", Keep::Last).unwrap();
    load(&b, &mut rows(0..4)).unwrap();
    assert_eq!(count(&b, 0..4), 1);
}

/// Loads rows 0 to 50 into a table, with a change in the middle.
fn load_during(store: &EngineStore, table: &str, change: impl FnOnce()) -> Result<()> {
    let ((asked, was_asked), (resume, go_on)) = (channel(), channel());
    std::thread::scope(|scope| {
        let loading = scope.spawn(move || {
            load(&store.table(&name(table))?, &mut Paused { asked, go_on, rows: rows(0..50) })
        });
        was_asked.recv().unwrap();
        change();
        drop(resume);
        loading.join().unwrap()
    })
}

#[test]
fn a_load_follows_its_table_through_changes_of_the_catalog() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let call = Call::default();
    for text in ["a", "b"] {
        create(&store, text, Keep::Last).unwrap();
    }
    let change = || store.rename_table(&name("a"), &name("c"), &call).unwrap();
    load_during(&store, "a", change).unwrap();
    assert_eq!(count(&store.table(&name("c")).unwrap(), 0..50), 50);

    let change = || store.swap_tables(&name("b"), &name("c"), &call).unwrap();
    load_during(&store, "b", change).unwrap();
    for text in ["b", "c"] {
        assert_eq!(count(&store.table(&name(text)).unwrap(), 0..50), 50, "{text}");
    }

    // The options are those of the end: neither the load nor an upsert fails.
    let table = store.table(&name("b")).unwrap();
    let change = || {
        table.set_retention(Some(Period::parse("900d").unwrap())).unwrap();
        upsert(&table, &mut rows(0..1)).unwrap();
    };
    load_during(&store, "b", change).unwrap();
    assert_eq!(table.options().unwrap().retention, Some(Period::parse("900d").unwrap()));

    let change = || store.drop_table(&name("b"), &call).unwrap();
    assert_gone(load_during(&store, "b", change));
    drop((store, table));
    assert_nothing_leaks_for_long(dir.path());
}

#[test]
fn a_compaction_and_a_flush_of_a_table_that_is_dropped_meanwhile_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let disk = GatedDisk::new();
    let store = EngineStore::open_with(disk.clone(), dir.path(), LIMITS).unwrap();
    let a = create(&store, "a", Keep::Last).unwrap();
    load(&a, &mut rows(0..50)).unwrap();
    load(&a, &mut rows(25..75)).unwrap();
    std::thread::scope(|scope| {
        let gate = disk.close_for(".seg");
        let compacting = scope.spawn(|| a.compact());
        gate.reached.recv().unwrap();
        store.drop_table(&name("a"), &Call::default()).unwrap();
        gate.open.send(()).unwrap();
        assert_gone(compacting.join().unwrap());
    });
    let b = create(&store, "b", Keep::Last).unwrap();
    upsert(&b, &mut rows(0..50)).unwrap();
    std::thread::scope(|scope| {
        let gate = disk.close_for(".seg");
        let flushing = scope.spawn(|| b.compact());
        gate.reached.recv().unwrap();
        let dropping = scope.spawn(|| store.drop_table(&name("b"), &Call::default()));
        gate.open.send(()).unwrap();
        // The drop waits for the flush, or the flush finds no table.
        dropping.join().unwrap().unwrap();
        drop(flushing.join().unwrap());
    });
    assert_eq!(store.tables().unwrap(), []);
    drop((store, a, b));
    assert_nothing_leaks_for_long(dir.path());
}

#[test]
fn no_acknowledged_row_is_lost_beside_swaps_and_renames() {
    const WRITERS: usize = 4;
    const EACH: usize = 150;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for text in ["a", "b"] {
        create(&store, text, Keep::Last).unwrap();
    }
    let (call, done) = (Call::default(), AtomicBool::new(false));
    let working = AtomicUsize::new(WRITERS);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, working) = (&store, &working);
            scope.spawn(move || {
                let text = ["a", "b"][writer % 2];
                for number in writer * EACH..(writer + 1) * EACH {
                    // While it has another name the table is not there: the caller tries again.
                    loop {
                        let table =
                            Table::named(&(Arc::new(store.clone()) as Arc<dyn Store>), &name(text));
                        let add = if number % 10 == 3 { load } else { upsert };
                        match add(&table, &mut rows(number..number + 1)) {
                            Ok(()) => break,
                            Err(e) => assert_eq!(e.kind(), ErrorKind::TableNotFound, "{e}"),
                        }
                    }
                }
                working.fetch_sub(1, Relaxed);
            });
        }
        scope.spawn(|| {
            while working.load(Relaxed) > 0 {
                store.swap_tables(&name("a"), &name("b"), &call).unwrap();
                store.rename_table(&name("a"), &name("c"), &call).unwrap();
                store.rename_table(&name("c"), &name("a"), &call).unwrap();
            }
            done.store(true, Relaxed);
        });
    });
    assert!(done.load(Relaxed));
    let both = ["a", "b"].map(|text| store.table(&name(text)).unwrap());
    let all = 0..WRITERS * EACH;
    assert_eq!(both.each_ref().map(|t| count(t, all.clone())).iter().sum::<usize>(), all.len());
    for table in &both {
        assert_eq!(table.verify().unwrap(), []);
    }
}
