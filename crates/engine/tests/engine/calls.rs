//! Callers that give up, or whose time is over: every long call ends with `Cancelled`, and the store is as right
//! as before. Progress adds up to the work.

use crate::common::{
    Batches, EVENT_TIMEOUT, GatedDisk, NumberedRows, Row, WatchedDisk, assert_cancelled,
    assert_nothing_leaked, create, erase, files, load, name, rows_of_all_kinds, upsert,
};
use arrow_array::RecordBatch;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Pick, Side, Target, Window};
use idmatch_store::locks::Mutex;
use idmatch_store::{
    Admin, BatchSource, Call, Counting, Distinct, Lookup, MatchQuery, NewWrite, OpenTables,
    Progress, Result, ScanRanges, Sharing, SourceBatch, Store, Table, Unit, Version, WriteKind,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

const QUERY: MatchQuery =
    MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: false };

/// Several segments of a few rows each.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 50,
    chunk_bytes: 500,
    run_bytes: 4 << 20,
    population_bytes: 2_000,
    memtable_bytes: 64 << 20,
};

fn flag() -> Arc<AtomicBool> {
    Arc::default()
}

fn cancelled_by(flag: &Arc<AtomicBool>) -> Call {
    Call::default().cancelled_by(flag)
}

/// A call that gives up at the first progress of a stage.
fn cancelled_in(stage: &'static str) -> Call {
    let flag = flag();
    let set = flag.clone();
    cancelled_by(&flag).reporting(Arc::new(move |progress: Progress| {
        set.fetch_or(progress.stage == stage, Relaxed);
    }))
}

/// Sets a flag with a batch, and goes on.
struct Flagging {
    batches: Batches,
    left: usize,
    flag: Arc<AtomicBool>,
}

impl Flagging {
    fn new(batches: Batches, left: usize, flag: &Arc<AtomicBool>) -> Flagging {
        Flagging { batches, left, flag: flag.clone() }
    }
}

impl BatchSource for Flagging {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        self.left = self.left.saturating_sub(1);
        self.flag.fetch_or(self.left == 0, Relaxed);
        self.batches.next_batch()
    }
}

/// A table with segments of two loads, and a memtable.
fn filled(disk: Arc<GatedDisk>, root: &Path) -> (EngineStore, Table) {
    let store = EngineStore::open_with(disk, root, LIMITS).unwrap();
    let table = create(&store, "t", Keep::All).unwrap();
    for number in 0..2 {
        load(&table, &mut Batches::of_rows(&NumberedRows(400).batch(number), 100)).unwrap();
    }
    upsert(&table, &mut Batches::of_rows(&NumberedRows(400).batch(2), 100)).unwrap();
    (store, table)
}

fn version(store: &EngineStore) -> Option<Version> {
    store.snapshot(&Call::default()).unwrap().version()
}

/// The batches of [`NumberedRows`] that a table has; each must be whole.
fn batches_in(table: &Table, rows: usize) -> Vec<usize> {
    (0..6).filter(|number| NumberedRows(rows).are_in(table, *number)).collect()
}

/// A table of many rows, half of them with one partner_id.
fn big(disk: Arc<WatchedDisk>, root: &Path) -> (EngineStore, Table, Vec<Row>) {
    let store = EngineStore::open_on(disk, root).unwrap();
    let table = create(&store, "big", Keep::Last).unwrap();
    let rows = NumberedRows(150_000).batch(0);
    load(&table, &mut Batches::of_rows(&rows, 50_000)).unwrap();
    (store, table, rows)
}

#[test]
fn a_load_that_is_given_up_publishes_nothing() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), GatedDisk::new());
    let (store, table) = filled(disk.clone(), dir.path());
    let before = version(&store);
    let rows = NumberedRows(400).batch(3);
    // While it pulls.
    let cancelled = flag();
    let mut source = Flagging::new(Batches::of_rows(&rows, 50), 4, &cancelled);
    assert_cancelled(load(&table.with_call(cancelled_by(&cancelled)), &mut source), "the load");
    // While it writes segments.
    let gate = disk.close_for(".seg");
    let cancelled = flag();
    std::thread::scope(|scope| {
        let table = table.with_call(cancelled_by(&cancelled));
        let mut source = Batches::of_rows(&rows, 50);
        let load = scope.spawn(move || load(&table, &mut source));
        gate.reached.recv_timeout(EVENT_TIMEOUT).unwrap();
        cancelled.store(true, Relaxed);
        gate.open.send(()).unwrap();
        assert_cancelled(load.join().unwrap(), "the sorting");
    });
    assert_eq!(version(&store), before);
    assert_nothing_leaked(dir.path());
    load(&table, &mut Batches::of_rows(&rows, 50)).unwrap();
    assert_eq!(batches_in(&table, 400), [0, 1, 2, 3]);
    assert_eq!(table.verify().unwrap(), []);
}

/// Compactions, repairs and replaces begin with a flush. Who gives up does not wait for its end.
#[test]
fn a_wait_for_a_flush_can_be_given_up() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), GatedDisk::new());
    let (_store, table) = filled(disk.clone(), dir.path());
    std::thread::scope(|scope| {
        let gate = disk.close_for(".seg");
        let compaction = scope.spawn(|| table.compact());
        gate.reached.recv_timeout(EVENT_TIMEOUT).unwrap();
        // The first look is at the begin of the call.
        let given_up = || {
            let looks = AtomicUsize::new(0);
            let is_over = move || looks.fetch_add(1, Relaxed) > 4;
            table.with_call(Call::default().ended_by(Arc::new(is_over)))
        };
        assert_cancelled(given_up().compact(), "the compaction");
        assert_cancelled(given_up().repair(false), "the repair");
        let id = table.snapshot().unwrap().id();
        for sharing in [Sharing::Local, Sharing::Shared] {
            let kind = WriteKind::Replace;
            let write = NewWrite { kind, sharing, ..NewWrite::load(id) };
            assert_cancelled(given_up().begin(write).map(drop), "the replace");
        }
        gate.open.send(()).unwrap();
        compaction.join().unwrap().unwrap();
    });
    assert_eq!(batches_in(&table, 400), [0, 1, 2]);
    assert_nothing_leaked(dir.path());
}

#[test]
fn an_upsert_that_is_given_up_leaves_whole_batches() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    let rows = NumberedRows(250_000).batch(0);
    let cancelled = flag();
    let mut source = Flagging::new(Batches::of_rows(&rows, 10_000), 15, &cancelled);
    assert_cancelled(upsert(&table.with_call(cancelled_by(&cancelled)), &mut source), "the upsert");
    // Batches have 100,000 rows.
    assert_eq!(table.stats().unwrap().memtable_rows, 100_000);
    assert!(table.last_seen(&rows[99_999].0, &rows[99_999].1).unwrap().is_some());
    assert_eq!(table.last_seen(&rows[100_000].0, &rows[100_000].1).unwrap(), None);
    assert_eq!(table.verify().unwrap(), []);
    upsert(&table, &mut Batches::of_rows(&rows, 100_000)).unwrap();
    let Distinct { pairs, is_exact: true, .. } = table.counted(Counting::All).unwrap().distinct
    else {
        panic!()
    };
    assert_eq!(pairs, 250_000);
}

#[test]
fn a_compaction_that_is_given_up_changes_no_answer() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), GatedDisk::new());
    let (_store, table) = filled(disk.clone(), dir.path());
    table.compact().unwrap();
    load(&table, &mut Batches::of_rows(&NumberedRows(400).batch(3), 100)).unwrap();
    let gate = disk.close_for(".seg");
    let cancelled = flag();
    std::thread::scope(|scope| {
        let table = table.with_call(cancelled_by(&cancelled));
        let compaction = scope.spawn(move || table.compact());
        gate.reached.recv_timeout(EVENT_TIMEOUT).unwrap();
        cancelled.store(true, Relaxed);
        gate.open.send(()).unwrap();
        assert_cancelled(compaction.join().unwrap(), "the compaction");
    });
    assert_eq!(batches_in(&table, 400), [0, 1, 2, 3]);
    assert_nothing_leaked(dir.path());
    let segments = table.stats().unwrap().segments;
    table.compact().unwrap();
    assert!(table.stats().unwrap().segments < segments, "it was not done before");
    assert_eq!(batches_in(&table, 400), [0, 1, 2, 3]);
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn a_backup_that_is_given_up_leaves_no_store() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), GatedDisk::new());
    let (store, table) = filled(disk.clone(), &dir.path().join("store"));
    let copy = dir.path().join("copy");
    for ending in [".log", ".seg"] {
        let gate = disk.close_for(ending);
        let cancelled = flag();
        std::thread::scope(|scope| {
            let call = cancelled_by(&cancelled);
            let backup = scope.spawn(|| store.backup(&copy, &{ call }));
            gate.reached.recv_timeout(EVENT_TIMEOUT).unwrap();
            cancelled.store(true, Relaxed);
            gate.open.send(()).unwrap();
            assert_cancelled(backup.join().unwrap(), ending);
        });
        assert!(!copy.join("MANIFEST").exists(), "{ending}");
        let left = files(&copy).into_iter().filter(|file| file.exists());
        assert_eq!(left.count(), 0, "{ending}");
    }
    store.backup(&copy, &Call::default()).unwrap();
    let copy = EngineStore::open(&copy).unwrap().table(&name("t")).unwrap();
    assert_eq!(batches_in(&copy, 400), batches_in(&table, 400));
}

#[test]
fn a_verification_and_a_repair_that_are_given_up_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (store, table) = filled(GatedDisk::new(), dir.path());
    table.compact().unwrap();
    assert_cancelled(table.with_call(cancelled_in("verify")).verify(), "the verification");
    drop((store, table));
    // A bit of the last page of a segment.
    let segment =
        fs::read_dir(dir.path().join("segments")).unwrap().map(|file| file.unwrap().path());
    let segment = segment.filter(|file| file.extension().unwrap() == "seg").min().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let last = bytes.len() - 40;
    bytes[last] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let store = EngineStore::open_with(GatedDisk::new(), dir.path(), LIMITS).unwrap();
    let table = store.table(&name("t")).unwrap();
    let found = table.verify().unwrap();
    assert!(!found.is_empty());
    let before = version(&store);
    for stage in ["verify", "load"] {
        assert_cancelled(table.with_call(cancelled_in(stage)).repair(false), stage);
        assert_eq!(version(&store), before, "{stage}");
        assert_eq!(table.verify().unwrap(), found, "{stage}");
        assert_nothing_leaked(dir.path());
    }
    assert_eq!(table.repair(false).unwrap().findings, found);
    assert_eq!(table.verify().unwrap(), []);
    assert_eq!(batches_in(&table, 400), [0, 1, 2]);
}

#[test]
fn reads_that_are_given_up_end_in_the_middle() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Arc::<WatchedDisk>::default());
    let (store, table, rows) = big(disk.clone(), dir.path());
    let before = version(&store);
    let snapshot = table.snapshot().unwrap();
    // Populations and scans say where they are.
    let cancelled = flag();
    let keys: Vec<String> = rows.iter().take(3_000).map(|row| row.0.clone()).collect();
    let mut population = Flagging::new(Batches::of_population(&keys), 20, &cancelled);
    let call = cancelled_by(&cancelled);
    assert_cancelled(snapshot.match_population(&mut population, QUERY, &call), "a match");
    assert!(population.batches.next_batch().unwrap().is_some(), "all was pulled");
    let cancelled = flag();
    let sink = |_: RecordBatch| {
        cancelled.store(true, Relaxed);
        Ok(())
    };
    let call = cancelled_by(&cancelled);
    assert_cancelled(snapshot.scan(&ScanRanges::all(), Window::ALL.into(), &sink, &call), "a scan");
    // The others do not: they are given up when they read the first page.
    let soon = || {
        let cancelled = flag();
        disk.set_at_next_read(&cancelled);
        cancelled_by(&cancelled)
    };
    let many: Vec<&str> = rows.iter().map(|row| row.0.as_str()).collect();
    assert_cancelled(snapshot.lookup_many(&many, Lookup::by(Side::Id), &soon()), "lookups");
    let of_hot = snapshot.lookup_many(&["hot-0"], Lookup::by(Side::PartnerId), &soon());
    assert_cancelled(of_hot, "a lookup of a key with 75,000 answers");
    assert_cancelled(snapshot.stats(Counting::All, &soon()), "a count");
    let targets: Vec<Target> = rows.iter().map(|row| Target::Id(row.0.clone())).collect();
    let late = table.with_call(soon());
    assert_cancelled(erase(&late, &targets, 1_000_000), "an erasure");
    let hot = [Target::PartnerId("hot-0".to_owned())];
    assert_cancelled(erase(&table.with_call(soon()), &hot, 1_000_000), "an erasure of a hot key");
    assert_eq!(version(&store), before);
    let answers = snapshot.lookup_many(&["hot-0"], Lookup::by(Side::PartnerId), &Call::default());
    assert_eq!(answers.unwrap().of(0).count(), 75_000);
}

#[test]
fn a_call_whose_time_is_over_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (store, table) = filled(GatedDisk::new(), &dir.path().join("store"));
    let over = Call::default().until(Instant::now());
    let (late, before) = (table.with_call(over.clone()), version(&store));
    let rows = NumberedRows(400).batch(4);
    let snapshot = table.snapshot().unwrap();
    let keys = [rows[0].0.clone()];
    let erasures = table.erasures().unwrap();
    let sink = |_: RecordBatch| panic!("a batch");
    assert_cancelled(load(&late, &mut Batches::of_rows(&rows, 100)), "load");
    assert_cancelled(upsert(&late, &mut Batches::of_rows(&rows, 100)), "upsert");
    assert_cancelled(erase(&late, &[Target::Id(rows[0].0.clone())], 1_000), "erase");
    assert_cancelled(late.add_erasures(&erasures), "import_tombstones");
    assert_cancelled(late.compact(), "compact");
    assert_cancelled(late.verify(), "verify");
    assert_cancelled(late.repair(false), "repair");
    assert_cancelled(store.backup(&dir.path().join("copy"), &over), "backup");
    let mut population = Batches::of_population(&keys);
    assert_cancelled(snapshot.match_population(&mut population, QUERY, &over), "match");
    assert_cancelled(snapshot.scan(&ScanRanges::all(), Window::ALL.into(), &sink, &over), "scan");
    assert_cancelled(snapshot.stats(Counting::All, &over), "distinct");
    assert_cancelled(snapshot.lookup_many(&["a"], Lookup::by(Side::Id), &over), "lookup_many");
    assert_eq!(version(&store), before);
    assert!(!dir.path().join("copy").join("MANIFEST").exists());
    assert_eq!(batches_in(&table, 400), [0, 1, 2]);
}

#[test]
fn progress_adds_up_to_the_work() {
    let dir = tempfile::tempdir().unwrap();
    let done: Arc<Mutex<BTreeMap<&str, (u64, u64)>>> = Arc::default();
    let call = {
        let done = done.clone();
        Call::default().reporting(Arc::new(move |Progress { stage, done: more, unit }| {
            let mut done = done.lock();
            let sums = done.entry(stage).or_default();
            match unit {
                Unit::Bytes => sums.0 += more,
                Unit::Rows => sums.1 += more,
            }
        }))
    };
    let take = || std::mem::take(&mut *done.lock());
    // Large segments, and then many small ones.
    let (store, table, rows) = big(Arc::default(), dir.path());
    let small = create(&store, "small", Keep::All).unwrap();
    let small_rows = rows_of_all_kinds(2_000);
    let loaded = small.with_call(call.clone());
    load(&loaded, &mut Batches::of_rows(&small_rows, 300)).unwrap();
    let mut done = take();
    assert_eq!(done.remove("load"), Some((0, 2_000)));
    // Packed rows have some bytes each, in both directions.
    assert!(done.remove("sort").is_some_and(|(bytes, rows)| bytes > 4_000 && rows == 0));
    assert_eq!(done, BTreeMap::new());
    let keys: Vec<String> = rows.iter().step_by(50).map(|row| row.0.clone()).collect();
    let mut population = Batches::of_population(&keys);
    table.with_call(call.clone()).match_population(&mut population, QUERY).unwrap();
    assert_eq!(take(), BTreeMap::from([("match", (0, 3_000))]));
    for table in [table, small] {
        assert_eq!(table.with_call(call.clone()).verify().unwrap(), []);
        let stats = table.stats().unwrap();
        let expected =
            BTreeMap::from([("verify", (stats.bytes, 0)), ("compare", (0, 2 * stats.rows))]);
        assert_eq!(take(), expected, "{}", table.name());
    }
}
