//! Checkpoints: a version as a store of its own, which never changes and goes when its time is over.

use crate::common::{
    Batches, EVENT_TIMEOUT, Fault, FaultyDisk, GatedDisk, HookedDisk, Hooks, Row, assert_same,
    create, erase, listed, load, name, places, upsert, whole,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, SeenAt, Target, Window};
use idmatch_store::{
    Admin, Call, Checkpoint, Error, ErrorKind, NewWrite, OpenTables, Result, Store, TableSnapshot,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

const KEEP: Duration = Duration::from_secs(24 * 60 * 60);
const WINDOWS: [Window; 1] = [Window::ALL];

fn rows(numbers: std::ops::Range<i64>) -> Vec<Row> {
    numbers.map(|n| (format!("i{}", n % 50), format!("p{n}"), n)).collect()
}

fn batches(numbers: std::ops::Range<i64>) -> Batches {
    Batches::of_rows(&rows(numbers), 10)
}

fn open(path: &Path) -> EngineStore {
    EngineStore::open(path).unwrap()
}

fn make(store: &EngineStore) -> Result<Checkpoint> {
    store.checkpoint(None, KEEP, &Call::default())
}

fn snapshot(store: &EngineStore) -> Arc<dyn TableSnapshot> {
    let call = Call::default();
    store.snapshot(&call).unwrap().table_named(&name("t"), &call).unwrap()
}

/// All answers about what these tests write.
fn told(store: &EngineStore) -> Vec<(String, Vec<Row>)> {
    let ids: Vec<String> = (0..51).map(|n| format!("i{n}")).collect();
    let partner_ids: Vec<String> = (0..301).map(|n| format!("p{n}")).collect();
    whole(&*snapshot(store), [&ids, &partner_ids], &WINDOWS)
}

/// A store with rows in segments and rows in the journal.
fn begun(root: &Path) -> EngineStore {
    let store = open(root);
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut batches(0..100)).unwrap();
    upsert(&table, &mut batches(100..150)).unwrap();
    store
}

#[test]
fn a_checkpoint_stays_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = begun(dir.path());
    let table = store.table(&name("t")).unwrap();
    let before = told(&store);
    let made = make(&store).unwrap();
    let frozen = open(&made.path);
    let at = snapshot(&frozen).version().1;
    assert_same(&told(&frozen), &before, "when it is made");
    upsert(&table, &mut batches(150..200)).unwrap();
    load(&table, &mut batches(200..300)).unwrap();
    erase(&table, &[Target::Id("i7".to_owned())], 1_000).unwrap();
    table.compact().unwrap();
    assert_ne!(told(&store), before);
    for opened in [&frozen, &open(&made.path)] {
        opened.refresh(&Call::default()).unwrap();
        assert_same(&told(opened), &before, "after writes");
        assert_eq!(snapshot(opened).version().1, at, "the clock stands still");
    }
    drop((table, store));
    fs::remove_dir_all(dir.path().join("segments")).unwrap();
    assert_same(&told(&open(&made.path)), &before, "without the store");
}

#[test]
fn a_checkpoint_refuses_writes() {
    let dir = tempfile::tempdir().unwrap();
    let made = make(&begun(dir.path())).unwrap();
    let frozen = open(&made.path);
    let table = frozen.table(&name("t")).unwrap();
    let call = Call::default();
    let id = table.snapshot().unwrap().id();
    let refused = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("is a checkpoint"), "{error}");
    };
    refused(upsert(&table, &mut batches(0..1)).unwrap_err());
    refused(load(&table, &mut batches(0..1)).unwrap_err());
    refused(create(&frozen, "new", Keep::All).map(drop).unwrap_err());
    refused(frozen.begin(NewWrite::load(id), &call).map(drop).unwrap_err());
    refused(table.compact().unwrap_err());
    refused(erase(&table, &[Target::Id("i7".to_owned())], 1_000).unwrap_err());
    refused(frozen.drop_table(&name("t"), &call).unwrap_err());
    refused(make(&frozen).unwrap_err());
    assert_eq!(frozen.verify(id, &call).unwrap(), []);
}

#[test]
fn a_version_has_one_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let store = begun(dir.path());
    let table = store.table(&name("t")).unwrap();
    let first = make(&store).unwrap();
    assert_eq!(make(&store).unwrap(), first);
    assert_eq!(make(&store).unwrap().bytes, first.bytes);
    upsert(&table, &mut batches(150..151)).unwrap();
    let second = make(&store).unwrap();
    assert_ne!(second.path, first.path);
    load(&table, &mut batches(151..152)).unwrap();
    let third = make(&store).unwrap();
    assert_ne!(third.path, second.path);
    // One that will soon be over is none for a longer time.
    let longer = store.checkpoint(None, KEEP * 3, &Call::default()).unwrap();
    assert_ne!(longer.path, third.path);
    let all: Vec<_> =
        store.checkpoints(&Call::default()).unwrap().into_iter().map(|one| one.path).collect();
    assert_eq!(all, [first.path, second.path, third.path, longer.path]);
}

#[test]
fn what_only_a_checkpoint_has_is_told_and_goes_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = begun(dir.path());
    let table = store.table(&name("t")).unwrap();
    table.compact().unwrap();
    let made = make(&store).unwrap();
    assert_eq!(made.bytes, 0);
    load(&table, &mut batches(200..300)).unwrap();
    table.compact().unwrap();
    let call = Call::default();
    assert!(store.checkpoints(&call).unwrap()[0].bytes > 0);
    let refused = store.remove_checkpoint(&dir.path().join("segments"), &call).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    store.remove_checkpoint(&made.path, &call).unwrap();
    store.remove_checkpoint(&made.path, &call).unwrap();
    assert_eq!(store.checkpoints(&call).unwrap(), []);
    assert!(!made.path.exists());
}

#[test]
fn the_next_writer_removes_those_whose_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = begun(dir.path());
    let (kept, over) = (make(&store).unwrap(), {
        upsert(&store.table(&name("t")).unwrap(), &mut batches(150..151)).unwrap();
        make(&store).unwrap()
    });
    drop(store);
    // As if it had been made long ago.
    let id = over.path.file_name().unwrap().to_str().unwrap().split_once('-').unwrap().1.to_owned();
    let old = over.path.with_file_name(format!("{:013}-{id}", 1_700_000_000_000u64));
    fs::rename(&over.path, &old).unwrap();
    let foreign = dir.path().join("checkpoints/notes");
    fs::create_dir(&foreign).unwrap();
    let store = open(dir.path());
    assert!(old.exists(), "a reader removes nothing");
    upsert(&store.table(&name("t")).unwrap(), &mut batches(0..1)).unwrap();
    assert!(!old.exists());
    assert!(kept.path.exists());
    assert!(foreign.exists());
}

#[test]
fn a_checkpoint_may_have_a_place_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let store = begun(&dir.path().join("store"));
    let before = told(&store);
    let call = Call::default();
    let place = dir.path().join("mine");
    let made = store.checkpoint(Some(&place), KEEP, &call).unwrap();
    assert_eq!(made.path, place);
    assert!(made.until > made.at);
    assert_same(&told(&open(&place)), &before, "elsewhere");
    let taken = store.checkpoint(Some(&place), KEEP, &call).unwrap_err();
    let inside = dir.path().join("store/segments/mine");
    let inside = store.checkpoint(Some(&inside), KEEP, &call).unwrap_err();
    for error in [taken, inside] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    store.remove_checkpoint(&place, &call).unwrap();
    assert!(!place.exists());
    for keep in [KEEP * 8, Duration::from_secs(1)] {
        let error = store.checkpoint(None, keep, &call).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_reader_makes_one_beside_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    let writer = begun(dir.path());
    let disk = FaultyDisk::without_faults();
    let reader =
        EngineStore::open_with(Arc::new(disk), dir.path(), MemoryLimits::default()).unwrap();
    let made = make(&reader).unwrap();
    upsert(&writer.table(&name("t")).unwrap(), &mut batches(150..200)).unwrap();
    let expected = told(&reader);
    assert_same(&told(&open(&made.path)), &expected, "of a reader");
    assert_eq!(SeenAt::from_millis(made.at.millis() as i64).unwrap(), made.at);
}

/// How many rows of "t" the erasure of an id hides, and where the checkpoints are that it names.
fn erased(store: &EngineStore, id: &str) -> (u64, Vec<PathBuf>) {
    erased_until(store, Target::Id(id.to_owned()), 1_000)
}

fn erased_until(store: &EngineStore, target: Target, at: i64) -> (u64, Vec<PathBuf>) {
    let erased = erase(&store.table(&name("t")).unwrap(), &[target], at).unwrap();
    (erased.by_id, erased.checkpoints.into_iter().map(|one| one.path).collect())
}

#[test]
fn an_erasure_names_those_that_show_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = begun(dir.path());
    let first = make(&store).unwrap().path;
    assert_eq!(erased(&store, "i7"), (3, vec![first.clone()]));
    let second = make(&store).unwrap().path;
    assert_eq!(erased(&store, "i7"), (0, vec![first.clone()]), "again: only it shows them");
    assert_eq!(erased(&store, "nobody"), (0, vec![]));
    upsert(&store.table(&name("t")).unwrap(), &mut Batches::of_rows(&[later()], 1)).unwrap();
    assert_eq!(erased(&store, "later"), (1, vec![]), "they came after both");
    let seen_at_149 = || Target::PartnerId("p149".to_owned());
    assert_eq!(erased_until(&store, seen_at_149(), 148), (0, vec![]));
    // Another table has the name now: both showed the rows under it.
    store.rename_table(&name("t"), &name("old"), &Call::default()).unwrap();
    create(&store, "t", Keep::Last).unwrap();
    assert_eq!(erased(&store, "i8"), (0, vec![first, second.clone()]));
    // One without a segment cannot be read, and one without a manifest even less: they may show them.
    let segments = second.join("segments");
    for file in listed(&segments).iter().filter(|file| file.ends_with(".seg")) {
        fs::remove_file(segments.join(file)).unwrap();
    }
    assert_eq!(erased(&store, "nobody"), (0, vec![second.clone()]));
    fs::write(second.join("MANIFEST"), "damaged").unwrap();
    assert_eq!(erased(&store, "nobody"), (0, vec![second.clone()]));
    assert!(!make(&store).unwrap().path.starts_with(&second), "it is in nobody's way");
    store.remove_checkpoint(&second, &Call::default()).unwrap();
    assert_eq!(erased(&store, "nobody"), (0, vec![]));
}

/// A row that no checkpoint has.
fn later() -> Row {
    ("later".to_owned(), "p".to_owned(), 1)
}

#[test]
fn a_reader_shows_nothing_that_another_process_has_erased() {
    let dir = tempfile::tempdir().unwrap();
    let writer = begun(dir.path());
    let disk = Arc::new(FaultyDisk::without_faults());
    let reader = EngineStore::open_with(disk, dir.path(), MemoryLimits::default()).unwrap();
    assert_eq!(erased(&writer, "i7"), (3, vec![]));
    let made = make(&reader).unwrap();
    assert_same(&told(&open(&made.path)), &told(&writer), "of a reader");
}

#[test]
fn one_that_an_erasure_misses_has_it() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), GatedDisk::new());
    drop(begun(dir.path()));
    let limits = MemoryLimits::default();
    let store = EngineStore::open_with(disk.clone(), dir.path(), limits).unwrap();
    let gate = disk.close_for(".seg");
    let made = std::thread::scope(|scope| {
        let made = scope.spawn(|| make(&store));
        gate.reached.recv_timeout(EVENT_TIMEOUT).unwrap();
        assert_eq!(erased(&store, "i7"), (3, vec![]));
        gate.open.send(()).unwrap();
        made.join().unwrap().unwrap()
    });
    assert_same(&told(&open(&made.path)), &told(&store), "made meanwhile");
    assert_eq!(store.checkpoints(&Call::default()).unwrap(), [made]);
}

#[test]
fn each_operation_fails_while_one_is_made() {
    let origin = tempfile::tempdir().unwrap();
    let expected = told(&begun(origin.path()));
    for at in places() {
        let dir = tempfile::tempdir().unwrap();
        drop(begun(dir.path()));
        let disk = Arc::new(FaultyDisk::new(at..at + 1, Fault::Error(io::ErrorKind::Other)));
        let made = EngineStore::open_with(disk.clone(), dir.path(), MemoryLimits::default())
            .and_then(|store| make(&store));
        if let Ok(made) = made {
            assert_same(&told(&open(&made.path)), &expected, "made in spite of a fault");
        }
        // What is left is a checkpoint of that version, or none.
        let store = EngineStore::open_with(Arc::new(OsDisk), dir.path(), MemoryLimits::default());
        let store = store.unwrap();
        assert_same(&told(&store), &expected, "the store");
        for left in store.checkpoints(&Call::default()).unwrap() {
            assert_same(&told(&open(&left.path)), &expected, "what is left");
        }
        if !disk.was_hit() {
            assert!(at > 10, "{at} operations");
            return;
        }
    }
}

/// Files on which a second name would be on another file system.
#[derive(Debug)]
struct NoLinks;

impl Hooks for NoLinks {
    const IS_SHARED: bool = false;

    fn before_link(&self) -> io::Result<()> {
        Err(io::ErrorKind::CrossesDevices.into())
    }
}

#[test]
fn without_hard_links_there_is_no_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let expected = told(&begun(&root));
    let disk = Arc::new(HookedDisk(NoLinks));
    let store = EngineStore::open_with(disk, &root, MemoryLimits::default()).unwrap();
    let (elsewhere, call) = (dir.path().join("mine"), Call::default());
    for place in [None, Some(elsewhere.as_path())] {
        let refused = store.checkpoint(place, KEEP, &call).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
    }
    assert_eq!(store.checkpoints(&call).unwrap(), []);
    let checkpoints = root.join("checkpoints");
    let begun = listed(&checkpoints).into_iter().map(|name| checkpoints.join(name));
    for left in begun.chain([elsewhere.clone()]) {
        assert!(!left.join("MANIFEST").exists());
        for folder in ["segments", "journal"] {
            assert_eq!(listed(&left.join(folder)).len(), 0, "{}/{folder}", left.display());
        }
    }
    assert_same(&told(&store), &expected, "the store");
    // The same place is free for another one.
    let made = open(&root).checkpoint(Some(&elsewhere), KEEP, &call).unwrap();
    assert_same(&told(&open(&made.path)), &expected, "where links are possible");
}
