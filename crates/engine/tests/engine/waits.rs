//! No write waits for an operation that reads a table: verify and backup stop in the middle, and upserts,
//! erasures and compactions go on. What they read stays until they are done.

use crate::common::{
    Batches, GatedDisk, Row, create, erase, load, name, rows_of_all_kinds, upsert,
};
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, SeenAt, Target};
use idmatch_store::{Admin, Call, OpenTables, Table};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Only a wait that never ends takes so long.
const FOREVER: Duration = Duration::from_secs(120);

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

/// Writes of every kind, each of which drops files.
fn write(table: &Table) {
    let late = ("late".to_owned(), "p".to_owned(), 1_000);
    upsert(table, &mut Batches::of_rows(&[late], 1)).unwrap();
    erase(table, &[Target::Id(rows()[1].0.clone())], i64::from(u32::MAX)).unwrap();
    table.compact().unwrap();
    assert!(table.last_seen("late", "p").unwrap().is_some());
}

/// Runs `reads` until it comes to a file with this ending, writes, and then lets it go on.
fn write_during<T: Send>(
    disk: &GatedDisk,
    ending: &'static str,
    table: &Table,
    reads: impl FnOnce() -> T + Send,
) -> T {
    let gate = disk.close_for(ending);
    std::thread::scope(|scope| {
        let reader = scope.spawn(reads);
        gate.reached.recv_timeout(FOREVER).unwrap();
        let (done, was_done) = channel();
        let table = table.clone();
        std::thread::spawn(move || {
            write(&table);
            done.send(()).ok();
        });
        let written = was_done.recv_timeout(FOREVER);
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
    let found = write_during(&disk, ".era", &table, || table.verify().unwrap());
    assert_eq!(found, []);
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn no_write_waits_for_a_backup() {
    for ending in [".seg", ".era", ".tab"] {
        let (dir, disk) = (tempfile::tempdir().unwrap(), GatedDisk::new());
        let (store, table) = store(&disk, &dir.path().join("store"));
        let copy = dir.path().join("copy");
        write_during(&disk, ending, &table, || store.backup(&copy, &Call::default()).unwrap());
        let copy = EngineStore::open(&copy).unwrap().table(&name("t")).unwrap();
        assert_eq!(copy.verify().unwrap(), [], "{ending}");
        // It has what there was when it began.
        assert_eq!(copy.last_seen("late", "p").unwrap(), None, "{ending}");
        let (id, partner_id, seen_at) = rows()[1].clone();
        let there = copy.last_seen(&id, &partner_id).unwrap().map(SeenAt::millis_i64);
        assert!(there >= Some(seen_at), "{ending}");
    }
}
