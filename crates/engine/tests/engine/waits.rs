//! No write waits for an operation that reads a table: verify, backup, compaction and erasure stop in the
//! middle, and upserts, erasures and compactions go on. What they read stays until they are done. Operations that wait for each
//! other end when their callers' time is over.

use crate::common::{
    Batches, EVENT_TIMEOUT, Gate, GatedDisk, Row, assert_cancelled, create, erase, load, name,
    rows_of_all_kinds, upsert,
};
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, SeenAt, Target};
use idmatch_store::locks::Mutex;
use idmatch_store::{Admin, Call, OpenTables, Result, Table};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::{Duration, Instant};

fn rows() -> Vec<Row> {
    rows_of_all_kinds(300)
}

/// A store with two loads and erasures.
fn store(disk: &Arc<GatedDisk>, root: &std::path::Path) -> (EngineStore, Table) {
    let store = EngineStore::open_on(disk.clone(), root).unwrap();
    let table = create(&store, "t", Keep::All).unwrap();
    for rows in rows().chunks(150) {
        load(&table, &mut Batches::of_rows(rows, 100)).unwrap();
    }
    erase(&table, &[Target::Id(rows()[0].0.clone())], i64::from(u32::MAX)).unwrap();
    (store, table)
}

/// Writes of single rows.
fn write_rows(table: &Table) {
    let late = ("late".to_owned(), "p".to_owned(), 1_000);
    upsert(table, &mut Batches::of_rows(&[late], 1)).unwrap();
    erase(table, &[Target::Id(rows()[1].0.clone())], i64::from(u32::MAX)).unwrap();
    assert!(table.last_seen("late", "p").unwrap().is_some());
}

/// Writes of every kind, each of which drops files.
fn write(table: &Table) {
    write_rows(table);
    table.compact().unwrap();
}

/// Runs `reads` until it comes to the gate, writes, and then lets it go on.
fn write_during<T: Send>(
    gate: &Gate,
    table: &Table,
    write: fn(&Table),
    reads: impl FnOnce() -> T + Send,
) -> T {
    std::thread::scope(|scope| {
        let reader = scope.spawn(reads);
        gate.reached.recv_timeout(EVENT_TIMEOUT).unwrap();
        let (done, was_done) = channel();
        let table = table.clone();
        std::thread::spawn(move || {
            write(&table);
            done.send(()).ok();
        });
        let written = was_done.recv_timeout(EVENT_TIMEOUT);
        gate.open.send(()).unwrap();
        let read = reader.join().unwrap();
        written.expect("a write waits for a read");
        read
    })
}

#[test]
fn no_write_waits_for_a_verification() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), GatedDisk::new());
    let (_store, table) = store(&disk, dir.path());
    let gate = disk.close_for(".era");
    let found = write_during(&gate, &table, write, || table.verify().unwrap());
    assert_eq!(found, []);
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn no_write_waits_for_a_backup() {
    for ending in [".seg", ".era", ".tab"] {
        let (dir, disk) = (tempfile::tempdir().unwrap(), GatedDisk::new());
        let (store, table) = store(&disk, &dir.path().join("store"));
        let copy = dir.path().join("copy");
        let gate = disk.close_for(ending);
        let backup = || store.backup(&copy, &Call::default()).unwrap();
        write_during(&gate, &table, write, backup);
        let copy = EngineStore::open(&copy).unwrap().table(&name("t")).unwrap();
        assert_eq!(copy.verify().unwrap(), [], "{ending}");
        // It has what there was when it began.
        assert_eq!(copy.last_seen("late", "p").unwrap(), None, "{ending}");
        let (id, partner_id, seen_at) = rows()[1].clone();
        let there = copy.last_seen(&id, &partner_id).unwrap().map(SeenAt::millis_i64);
        assert!(there >= Some(seen_at), "{ending}");
    }
}

#[test]
fn no_write_waits_for_the_flush_of_a_compaction() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), GatedDisk::new());
    let (_store, table) = store(&disk, dir.path());
    upsert(&table, &mut Batches::of_rows(&rows()[..50], 50)).unwrap();
    let gate = disk.close_for(".seg");
    write_during(&gate, &table, write_rows, || table.compact().unwrap());
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn no_write_waits_for_an_erasure_that_searches() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), GatedDisk::new());
    let (_store, table) = store(&disk, dir.path());
    // None that `write` erases.
    let mut of_others = rows().into_iter().filter(|row| row.0 != rows()[1].0);
    let is_shown = |row: &Row| table.last_seen(&row.0, &row.1).unwrap().is_some();
    let (id, partner_id, _) = of_others.find(is_shown).unwrap();
    let at = table.last_seen(&id, &partner_id).unwrap().unwrap().millis_i64();
    let (reached, was_reached) = sync_channel(1);
    let (open, opened) = channel();
    let (opened, is_first) = (Mutex::new(opened), AtomicBool::new(true));
    // It reports each target that it has searched for.
    let stops = move |_| {
        if is_first.swap(false, Relaxed) {
            reached.send(()).unwrap();
            opened.lock().recv().unwrap();
        }
    };
    let erasing = table.with_call(Call::default().reporting(Arc::new(stops)));
    let target = [Target::Id(id.clone())];
    let gate = Gate { reached: was_reached, open };
    let erased = write_during(&gate, &table, write, || erase(&erasing, &target, at).unwrap());
    assert!(erased.by_id > 0);
    assert_eq!(table.last_seen(&id, &partner_id).unwrap(), None);
    // Segments that were made meanwhile have rows of it: they are written anew.
    table.compact().unwrap();
    assert_eq!(table.last_seen(&id, &partner_id).unwrap(), None);
    assert_eq!(table.verify().unwrap(), []);
}

/// Runs a call while another operation is in the middle, and then lets that go on.
fn give_up_during(
    goes_on: impl FnOnce() + Send,
    reached: &Receiver<()>,
    open: &Sender<()>,
    waits: impl FnOnce(Call) -> Result<()> + Send + 'static,
    what: &str,
) {
    std::thread::scope(|scope| {
        let other = scope.spawn(goes_on);
        reached.recv_timeout(EVENT_TIMEOUT).unwrap();
        let (done, was_done) = channel();
        // Long enough to begin to wait. If it does not wait, it ends all the same.
        let deadline = Instant::now() + Duration::from_millis(60);
        std::thread::spawn(move || done.send(waits(Call::default().until(deadline))));
        let outcome = was_done.recv_timeout(EVENT_TIMEOUT);
        open.send(()).unwrap();
        other.join().unwrap();
        assert_cancelled(outcome.unwrap_or_else(|_| panic!("{what} waits for ever")), what);
    });
}

#[test]
fn no_call_waits_for_another_operation_beyond_its_deadline() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), GatedDisk::new());
    let (_store, table) = store(&disk, dir.path());
    // One sorts at a time.
    let gate = disk.close_for(".seg");
    let loading = table.clone();
    let goes_on = move || load(&loading, &mut Batches::of_rows(&rows(), 100)).unwrap();
    let other = table.clone();
    let waits = move |call: Call| {
        let again = other.with_call(call);
        assert_cancelled(again.repair(false), "a repair during a load");
        load(&again, &mut Batches::of_rows(&rows()[..9], 9))
    };
    give_up_during(goes_on, &gate.reached, &gate.open, waits, "a load while another sorts");

    let gate = disk.close_for(".era");
    let erasing = table.clone();
    let target = [Target::Id(rows()[7].0.clone())];
    let again = (table.clone(), target.clone());
    let goes_on = || assert!(erase(&erasing, &target, 10_000).is_ok());
    let waits = move |call| erase(&again.0.with_call(call), &again.1, 10_000).map(drop);
    give_up_during(goes_on, &gate.reached, &gate.open, waits, "an erasure during an erasure");

    table.compact().unwrap();
    load(&table, &mut Batches::of_rows(&rows(), 100)).unwrap();
    let gate = disk.close_for(".seg");
    let compacting = table.clone();
    let again = table.clone();
    let goes_on = move || compacting.compact().unwrap();
    let waits = move |call: Call| again.with_call(call).compact();
    give_up_during(goes_on, &gate.reached, &gate.open, waits, "a compaction during a compaction");
    assert_eq!(table.verify().unwrap(), []);
}
