//! Long calls that are given up in the middle of a stage end before their work does. Nothing is half done, and
//! the call can be repeated.

use crate::common::{
    Batches, EVENT_TIMEOUT, GatedDisk, NumberedRows, assert_cancelled, assert_nothing_leaked,
    create, erase, load, name, upsert,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Target};
use idmatch_store::{
    Admin, Call, CopyOptions, OpenTables, Progress, Result, Store, Table, copy_table,
};
use idmatch_testkit::LogCapture;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Several segments of a few rows each.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 50,
    chunk_bytes: 500,
    run_bytes: 4 << 20,
    population_bytes: 2_000,
    memtable_bytes: 64 << 20,
};
const ROWS: usize = 400;

/// Gives work up at the first progress of each stage, and then does all of it.
fn stop_in_each(stages: &[&'static str], what: &str, work: impl Fn(&Call) -> Result<()>) {
    let run = |stage: &'static str| {
        let (flag, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (set, sum) = (flag.clone(), done.clone());
        let call = Call::default().cancelled_by(&flag).reporting(Arc::new(move |p: Progress| {
            sum.fetch_add(p.done, Relaxed);
            set.fetch_or(p.stage == stage, Relaxed);
        }));
        (work(&call), done.load(Relaxed))
    };
    let stopped = stages.iter().map(|stage| {
        let (result, done) = run(stage);
        assert_cancelled(result, &format!("{what}, in {stage}"));
        done
    });
    let stopped: Vec<u64> = stopped.collect();
    let (result, all) = run("none");
    result.unwrap();
    for (stage, done) in stages.iter().zip(stopped) {
        assert!(done < all, "{what}: all was done when it was given up in {stage}");
    }
}

/// A table with segments of two loads.
fn filled(root: &Path) -> (EngineStore, Table) {
    let store = EngineStore::open_with(Arc::new(OsDisk), root, LIMITS).unwrap();
    let table = create(&store, "t", Keep::All).unwrap();
    for number in 0..2 {
        load(&table, &mut Batches::of_rows(&NumberedRows(ROWS).batch(number), 100)).unwrap();
    }
    (store, table)
}

/// The batches of [`NumberedRows`] that the table has, each whole; all is well with it.
fn batches_in(table: &Table) -> Vec<usize> {
    assert_eq!(table.verify().unwrap(), []);
    (0..4).filter(|number| NumberedRows(ROWS).are_in(table, *number)).collect()
}

#[test]
fn writes_end_in_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, table) = filled(dir.path());
    stop_in_each(&["load", "sort"], "a load", |call| {
        assert_eq!(batches_in(&table), [0, 1]);
        let rows = NumberedRows(ROWS).batch(2);
        load(&table.with_call(call.clone()), &mut Batches::of_rows(&rows, 50)).map(drop)
    });
    assert_eq!(batches_in(&table), [0, 1, 2]);
    stop_in_each(&["upsert"], "an upsert", |call| {
        let rows = NumberedRows(ROWS).batch(3);
        upsert(&table.with_call(call.clone()), &mut Batches::of_rows(&rows, 50)).map(drop)
    });
    assert_eq!(batches_in(&table), [0, 1, 2, 3]);
    let targets = NumberedRows(ROWS).batch(0).into_iter().map(|row| Target::Id(row.0));
    let targets: Vec<Target> = targets.collect();
    stop_in_each(&["erase"], "an erasure", |call| {
        assert_eq!(batches_in(&table), [0, 1, 2, 3]);
        erase(&table.with_call(call.clone()), &targets, 1_000_000).map(drop)
    });
    assert!(table.verify().unwrap().is_empty());
    assert_nothing_leaked(dir.path());
}

#[test]
fn maintenance_ends_in_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, table) = filled(dir.path());
    stop_in_each(&["verify", "compare"], "a verification", |call| {
        table.with_call(call.clone()).verify().map(drop)
    });
    stop_in_each(&["compact"], "a compaction", |call| {
        assert_eq!(batches_in(&table), [0, 1]);
        table.with_call(call.clone()).compact()
    });
    assert_eq!(batches_in(&table), [0, 1]);
    assert_nothing_leaked(dir.path());
}

#[test]
fn copies_end_in_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let (store, table) = filled(&dir.path().join("store"));
    let (backup, restored) = (dir.path().join("backup"), dir.path().join("restored"));
    stop_in_each(&["back up"], "a backup", |call| {
        assert!(!backup.join("MANIFEST").exists());
        store.backup(&backup, call)
    });
    stop_in_each(&["verify", "back up"], "a restore", |call| {
        assert!(!restored.join("MANIFEST").exists());
        EngineStore::restore(&backup, &restored, true, call).map(drop)
    });
    let restored = EngineStore::open(&restored).unwrap();
    assert_eq!(batches_in(&restored.table(&name("t")).unwrap()), [0, 1]);
    let other = EngineStore::open_with(Arc::new(OsDisk), &dir.path().join("other"), LIMITS);
    let other: Arc<dyn Store> = Arc::new(other.unwrap());
    let options = CopyOptions { batch_rows: 100, merge: false, accept_lost_erasures: false };
    stop_in_each(&["copy", "load", "sort", "compare"], "a copy", |call| {
        copy_table(&table, &other, &name("t"), options, call).map(drop)
    });
    assert_eq!(batches_in(&other.table(&name("t")).unwrap()), [0, 1]);
    assert_eq!(batches_in(&table), [0, 1]);
}

#[test]
fn a_recovery_ends_in_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path()));
    let segments = fs::read_dir(dir.path().join("segments")).unwrap();
    fs::remove_file(segments.map(|file| file.unwrap().path()).min().unwrap()).unwrap();
    stop_in_each(&["load", "sort"], "a recovery", |call| {
        assert!(EngineStore::open(dir.path()).is_err(), "it is not recovered yet");
        EngineStore::recover(Arc::new(OsDisk), dir.path(), (false, false), call).map(drop)
    });
    let store = EngineStore::open(dir.path()).unwrap();
    assert_eq!(batches_in(&store.table(&name("t")).unwrap()), [0, 1]);
    assert_nothing_leaked(dir.path());
}

/// An upsert that waits for a compaction ends when its caller gives up, and none of its rows is taken.
#[test]
fn a_write_stall_ends_with_its_call() {
    let (dir, disk, log) = (tempfile::tempdir().unwrap(), GatedDisk::new(), LogCapture::new());
    let store = EngineStore::open_on(disk.clone(), dir.path()).unwrap();
    let table = create(&store, "t", Keep::All).unwrap();
    let rows = |number: usize| NumberedRows(2).batch(number);
    for number in 0..2 {
        load(&table, &mut Batches::of_rows(&rows(number), 2)).unwrap();
    }
    std::thread::scope(|threads| {
        let gate = disk.close_for(".seg");
        let compaction = threads.spawn(|| table.compact());
        gate.reached.recv_timeout(EVENT_TIMEOUT).unwrap();
        // Loads are not slowed down, and no other compaction runs.
        for number in 2..259 {
            load(&table, &mut Batches::of_rows(&rows(number), 2)).unwrap();
        }
        // An upsert that does not wait looks three times whether it is to end.
        let looks = AtomicU64::new(0);
        let call = Call::default().ended_by(Arc::new(move || looks.fetch_add(1, Relaxed) > 10));
        let stalled = upsert(&table.with_call(call), &mut Batches::of_rows(&rows(259), 2));
        assert_cancelled(stalled, "an upsert during a write stall");
        assert_eq!(log.take("WARN compactions are far behind: upserts wait").len(), 1);
        gate.open.send(()).unwrap();
        compaction.join().unwrap().unwrap();
    });
    assert!(!NumberedRows(2).are_in(&table, 259));
    upsert(&table, &mut Batches::of_rows(&rows(260), 2)).unwrap();
    for number in (0..259).chain([260]) {
        assert!(NumberedRows(2).are_in(&table, number), "batch {number}");
    }
}
