//! Work that nobody waits for: its failures are told and counted, it is tried again, and no panic in it ends it for
//! good.

use crate::common::{
    Batches, HookedDisk, Hooks, Row, create, files, load, name, rows_of_all_kinds, upsert,
};
use crate::compaction::LIMITS;
use idmatch_engine::EngineStore;
use idmatch_engine::disk::NewFile;
use idmatch_model::Keep;
use idmatch_store::{
    BackgroundError, Call, Durability, ErrorKind, OpenTables, Result, Store, Table,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

const WORKS: u8 = 0;
const NO_SPACE: u8 = 1;
const PANICS: u8 = 2;
const NO_SYNC: u8 = 3;

const DAY: Duration = Duration::from_secs(86_400);

/// Makes the creation of segments fail, or the sync of journal files.
#[derive(Debug, Default)]
struct Faults<const IS_SHARED: bool>(Arc<AtomicU8>);

impl<const IS_SHARED: bool> Hooks for Faults<IS_SHARED> {
    const IS_SHARED: bool = IS_SHARED;

    fn before(&self, file: &Path) -> io::Result<()> {
        match self.0.load(Relaxed) {
            NO_SPACE if is_segment(file) => Err(io::ErrorKind::StorageFull.into()),
            PANICS if is_segment(file) => panic!("injected panic"),
            _ => Ok(()),
        }
    }

    fn made(&self, file: &Path, made: Box<dyn NewFile>) -> Box<dyn NewFile> {
        let is_journal = file.extension().is_some_and(|extension| extension == "log");
        if is_journal { Box::new(Unsynced(made, self.0.clone())) } else { made }
    }
}

/// A file whose sync can be refused.
struct Unsynced(Box<dyn NewFile>, Arc<AtomicU8>);

impl io::Write for Unsynced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl NewFile for Unsynced {
    fn sync(&mut self) -> io::Result<()> {
        match self.1.load(Relaxed) {
            NO_SYNC => Err(io::Error::other("injected failure of a sync")),
            _ => self.0.sync(),
        }
    }
}

/// Real files of a process, and how they fail.
type Failing = HookedDisk<Faults<false>>;
/// The same, where handles of a directory share the writer.
type SharedFailing = HookedDisk<Faults<true>>;

impl<const IS_SHARED: bool> HookedDisk<Faults<IS_SHARED>> {
    fn set(&self, how: u8) {
        self.0.0.store(how, Relaxed);
    }
}

fn segments(root: &Path) -> Vec<PathBuf> {
    files(root).into_iter().filter(|file| is_segment(file)).collect()
}

fn is_segment(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "seg")
}

/// Waits until the background is as it should be, however long that takes.
fn wait_until(store: &EngineStore, is: impl Fn(Option<BackgroundError>) -> bool) {
    while !is(store.status().last_background_error) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_flush_that_fails_is_told_and_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::default());
    let rows = rows_of_all_kinds(4_000);
    let mut acknowledged: Vec<Row> = Vec::new();
    {
        let store = EngineStore::open_with(disk.clone(), dir.path(), LIMITS).unwrap();
        let table = create(&store, "t", Keep::Last).unwrap();
        disk.set(NO_SPACE);
        let mut parts = rows.chunks(20);
        let refused = parts.by_ref().find_map(|part| {
            let written = upsert(&table, &mut Batches::of_rows(part, 20));
            written.is_ok().then(|| acknowledged.extend_from_slice(part));
            written.err()
        });
        let refused = refused.expect("a store without segments takes so many rows");
        assert_eq!(refused.kind(), ErrorKind::Io);
        let failing = store.status().last_background_error.unwrap();
        assert_eq!(failing.work, "flush");
        assert!(failing.failures > 0 && failing.last >= failing.since, "{failing:?}");
        assert!(failing.error.contains(".seg"), "{failing:?}");
        // Whoever writes next is told so too, until it works.
        let next = parts.next().unwrap();
        let refused = upsert(&table, &mut Batches::of_rows(next, 20)).unwrap_err().to_string();
        assert!(refused.contains("cannot be written as segments since"), "{refused}");
        disk.set(WORKS);
        // Nobody writes: it is tried again in the background.
        wait_until(&store, |failing| failing.is_none());
        for part in [next, parts.next().unwrap()] {
            upsert(&table, &mut Batches::of_rows(part, 20)).unwrap();
            acknowledged.extend_from_slice(part);
        }
    }
    let store = EngineStore::open(dir.path()).unwrap();
    let table = store.table(&name("t")).unwrap();
    for (id, partner_id, _) in &acknowledged {
        assert!(table.last_seen(id, partner_id).unwrap().is_some());
    }
}

fn row(number: i64) -> Row {
    (format!("i{number}"), format!("p{number}"), number)
}

/// Upserts the row with this number.
fn write(table: &Table, number: i64) -> Result<()> {
    upsert(table, &mut Batches::of_rows(&[row(number)], 1))
}

/// Has a store lose the sync of the row with this number.
fn fail_sync<const IS_SHARED: bool>(
    store: &EngineStore,
    disk: &HookedDisk<Faults<IS_SHARED>>,
    table: &Table,
    number: i64,
) {
    store.set_durability(Durability::Interval(Duration::from_millis(1)));
    disk.set(NO_SYNC);
    write(table, number).unwrap();
    wait_until(store, |failing| failing.is_some_and(|failing| failing.work == "sync"));
}

#[test]
fn a_sync_that_fails_is_told_and_ends_writes() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::default());
    {
        let store = EngineStore::open_with(disk.clone(), dir.path(), LIMITS).unwrap();
        let table = create(&store, "t", Keep::Last).unwrap();
        write(&table, 1).unwrap();
        fail_sync(&store, &disk, &table, 2);
        let failing = store.status().last_background_error.unwrap();
        assert!(failing.error.contains("injected failure of a sync"), "{failing:?}");
        // What the disk has lost is unknown: nothing more is acknowledged by this process.
        disk.set(WORKS);
        let refused = write(&table, 3).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io);
        assert!(refused.to_string().contains("can only be read since writing failed"), "{refused}");
        assert!(table.last_seen("i2", "p2").unwrap().is_some());
    }
    let store = EngineStore::open(dir.path()).unwrap();
    let table = store.table(&name("t")).unwrap();
    assert!(table.last_seen("i1", "p1").unwrap().is_some());
    assert!(table.last_seen("i3", "p3").unwrap().is_none());
    write(&table, 3).unwrap();
}

/// A commit that finds an earlier one late syncs both, and may be the first to see that this fails.
#[test]
fn a_late_sync_that_fails_is_told() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Failing::default());
        let store = EngineStore::open_with(disk.clone(), dir.path(), LIMITS).unwrap();
        let table = create(&store, "t", Keep::Last).unwrap();
        store.set_durability(Durability::Interval(Duration::ZERO));
        write(&table, 0).unwrap();
        disk.set(NO_SYNC);
        let refused = (1..).find_map(|number| write(&table, number).err()).unwrap();
        assert_eq!(refused.kind(), ErrorKind::Io);
        let failing = store.status().last_background_error.unwrap();
        assert_eq!((failing.work, failing.failures), ("sync", 1), "{failing:?}");
    }
}

/// Whatever syncs a journal file does so for rows that calls before wrote, too.
#[test]
fn a_sync_that_fails_in_any_call_is_told() {
    type Syncs = fn(&EngineStore, &Table) -> Result<()>;
    let syncs: [(&str, bool, Syncs); 6] = [
        ("an upsert", false, |store, table| {
            store.set_durability(Durability::Always);
            write(table, 1)
        }),
        ("upserts that fill the file", false, |_, table| {
            Err((1..).find_map(|number| write(table, number).err()).unwrap())
        }),
        ("a load", false, |_, table| load(table, &mut Batches::of_rows(&[row(1)], 1))),
        ("a compaction", true, |_, table| table.compact()),
        ("a drop", true, |store, _| store.drop_table(&name("other"), &Call::default())),
        ("the end of writing", false, |store, _| store.end_writing()),
    ];
    for (what, is_done, sync) in syncs {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Failing::default());
        let store = EngineStore::open_with(disk.clone(), dir.path(), LIMITS).unwrap();
        let [table, other] = ["t", "other"].map(|table| create(&store, table, Keep::Last).unwrap());
        store.set_durability(Durability::Interval(DAY));
        write(&other, 0).unwrap();
        write(&table, 0).unwrap();
        disk.set(NO_SYNC);
        let done = sync(&store, &table);
        let kind = done.as_ref().err().map(|error| error.kind());
        assert_eq!(kind, (!is_done).then_some(ErrorKind::Io), "{what}: {done:?}");
        let failing = store.status().last_background_error.unwrap_or_else(|| panic!("{what}"));
        assert_eq!((failing.work, failing.failures), ("sync", 1), "{what}: {failing:?}");
        assert!(failing.error.contains("injected failure of a sync"), "{what}: {failing:?}");
        assert!(table.last_seen("i0", "p0").unwrap().is_some(), "{what}");
    }
}

#[test]
fn a_store_that_is_opened_again_has_no_failing_sync() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(SharedFailing::default());
    let store = EngineStore::open_with(disk.clone(), dir.path(), LIMITS).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    write(&table, 0).unwrap();
    fail_sync(&store, &disk, &table, 1);
    disk.set(WORKS);
    write(&table, 2).unwrap_err();
    // The first handle stays.
    let again = EngineStore::open_with(disk, dir.path(), LIMITS).unwrap();
    let table = again.table(&name("t")).unwrap();
    write(&table, 3).unwrap();
    assert_eq!(again.status().last_background_error, None);
    assert_eq!(store.status().last_background_error, None);
    assert!(table.last_seen("i3", "p3").unwrap().is_some());
}

#[test]
fn compactions_that_fail_are_told_and_tried_again() {
    compactions_go_on_after(NO_SPACE, ".seg");
}

#[test]
fn a_panic_does_not_end_compactions() {
    compactions_go_on_after(PANICS, "the compaction panicked; the log says where");
}

fn compactions_go_on_after(how: u8, error: &str) {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::default());
    let store = EngineStore::open_with(disk.clone(), dir.path(), LIMITS).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    for part in rows_of_all_kinds(200).chunks(50) {
        load(&table, &mut Batches::of_rows(part, 50)).unwrap();
    }
    // A flush is followed by compactions of all tables.
    let before = segments(dir.path());
    let mut number = 0;
    while segments(dir.path()) == before {
        let row = (format!("f{number}"), format!("p{number}"), number);
        upsert(&table, &mut Batches::of_rows(&[row], 1)).unwrap();
        number += 1;
    }
    disk.set(how);
    wait_until(&store, |failing| failing.is_some_and(|failing| failing.work == "compaction"));
    let failing = store.status().last_background_error.unwrap();
    assert!(failing.error.contains(error), "{failing:?}");
    let before = segments(dir.path());
    disk.set(WORKS);
    wait_until(&store, |failing| failing.is_none());
    assert_ne!(segments(dir.path()), before, "nothing was compacted");
    assert_eq!(table.verify().unwrap(), []);
}
