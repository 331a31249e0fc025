//! A store with one file of a later format is refused by name, and no attempt changes it: files that every
//! reader needs. Those that only some calls read are in `later_formats_of_writes`.

use crate::common::{
    Batches, EVENT_TIMEOUT, FaultyDisk, GatedDisk, LATER_FORMATS, Row, assert_later,
    assert_unchanged, copy_store, count_rows, create, damaged_place, erase, listed, load, manifest,
    name, open_apart, put_later, table_file, tree, upsert, with_format, without_magic,
};
use idmatch_engine::EngineStore;
use idmatch_engine::disk::OsDisk;
use idmatch_model::{Keep, Target};
use idmatch_store::{Admin, Call, ErrorKind, OpenTables, Result, Store};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn rows() -> Vec<Row> {
    (0..300).map(|n| (format!("i{n}"), format!("p{n}"), 1_000 + n)).collect()
}

/// A store with segments, two journal files and erasures, of a table that is there and of one that was dropped.
fn original(root: &Path) {
    let (made, disk) = (root.with_file_name("made"), GatedDisk::new());
    let store = EngineStore::open_on(disk.clone(), &made).unwrap();
    let tables = ["t", "gone"].map(|table| create(&store, table, Keep::Last).unwrap());
    for table in &tables {
        load(table, &mut Batches::of_rows(&rows()[..200], 100)).unwrap();
        assert_eq!(erase(table, &[Target::Id("i7".to_owned())], 2_000).unwrap().by_id, 1);
    }
    for table in &tables {
        upsert(table, &mut Batches::of_rows(&rows()[200..299], 100)).unwrap();
    }
    // The flush that would forget the dropped table waits until the store is copied.
    let flush = disk.close_for(".seg");
    store.drop_table(&name("gone"), &Call::default()).unwrap();
    flush.reached.recv_timeout(EVENT_TIMEOUT).unwrap();
    upsert(&tables[0], &mut Batches::of_rows(&rows()[299..], 100)).unwrap();
    copy_store(&made, root);
    fs::copy(made.join("LOCK"), root.join("LOCK")).unwrap();
    flush.open.send(()).unwrap();
    store.close().unwrap();
}

/// Every way to open a store as it is.
fn openings(root: &Path) -> Vec<(&'static str, Result<()>)> {
    let (call, apart) = (Call::default(), Arc::new(FaultyDisk::without_faults()));
    let copy = root.with_file_name("copy");
    let restored = EngineStore::restore(root, &copy, false, &call).map(drop);
    assert!(!copy.exists(), "a copy of {}", root.display());
    vec![
        ("open", EngineStore::open(root).map(drop)),
        ("open in another process", EngineStore::open_on(apart, root).map(drop)),
        ("restore", restored),
    ]
}

/// A recovery that accepts all losses, and then the opening that it is for.
fn recover(root: &Path) -> Result<()> {
    let found = EngineStore::recover(Arc::new(OsDisk), root, (true, true), &Call::default())?;
    assert_eq!(found, [], "{}", root.display());
    EngineStore::open(root).map(drop)
}

/// A store whose file has a later format, or begins as no file of a store does, is refused and left alone.
fn assert_refused(file_of: impl Fn(&Path) -> PathBuf) {
    assert_refused_with(file_of, without_magic);
}

/// The same; `harmed` gives the file as no file of a store begins.
fn assert_refused_with(file_of: impl Fn(&Path) -> PathBuf, harmed: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
    let dir = tempfile::tempdir().unwrap();
    let (whole, root) = (dir.path().join("whole"), dir.path().join("store"));
    original(&whole);
    let original = file_of(&whole);
    let bytes = fs::read(&original).unwrap();
    let file = root.join(original.strip_prefix(&whole).unwrap());
    let copied = || {
        fs::remove_dir_all(&root).ok();
        copy_store(&whole, &root);
        fs::copy(whole.join("LOCK"), root.join("LOCK")).unwrap();
        assert_eq!(count_rows(&open_apart(&root).table(&name("t")).unwrap(), &rows()), 299);
    };
    for format in LATER_FORMATS {
        copied();
        put_later(&root, &file, &with_format(&bytes, format));
        let before = tree(&root);
        let recovered = [("recover", recover(&root))];
        for (way, outcome) in recovered.into_iter().chain(openings(&root)) {
            let what = format!("{way}, {}, format {format}", file.display());
            let Err(error) = outcome else { panic!("{what}: it opens") };
            assert_later(&error, &file, format, &what);
        }
        assert_unchanged(&root, &before, &format!("{}, format {format}", file.display()));
    }
    for (number, harmed) in harmed(&bytes).into_iter().enumerate() {
        copied();
        fs::write(&file, harmed).unwrap();
        let before = tree(&root);
        for (way, outcome) in openings(&root) {
            let what = format!("{way}, {}, harm {number}", file.display());
            let Err(error) = outcome else { panic!("{what}: it opens") };
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
            assert_eq!(Path::new(damaged_place(&error).0), file, "{what}");
        }
        assert_unchanged(&root, &before, &format!("{}, harm {number}", file.display()));
    }
}

/// A file in the folder of segments that an entry of JSON names.
fn named(root: &Path, entry: &serde_json::Value) -> PathBuf {
    root.join("segments").join(entry["file"].as_str().unwrap())
}

#[test]
fn a_manifest_of_a_later_format() {
    assert_refused(|root| root.join("MANIFEST"));
}

#[test]
fn a_table_file_of_a_later_format() {
    assert_refused(|root| root.join("segments").join(table_file(root, "t").0));
}

/// The journal may have rows of it, so its file is read.
#[test]
fn the_file_of_a_dropped_table_of_a_later_format() {
    assert_refused(|root| named(root, &manifest(root).unwrap()["dropped"][0]));
}

#[test]
fn a_segment_of_a_later_format() {
    for number in [0, 1] {
        assert_refused(|root| named(root, &table_file(root, "t").1["segments"][number]));
    }
}

#[test]
fn an_erasure_file_of_a_later_format() {
    assert_refused(|root| named(root, &table_file(root, "t").1["erasures"][0]));
}

/// A kill may leave the last file without a whole header: only one with another magic is refused.
#[test]
fn a_journal_file_of_a_later_format() {
    for number in [0, 1] {
        let file = |root: &Path| {
            let journal = listed(&root.join("journal"));
            assert_eq!(journal.len(), 2);
            root.join("journal").join(journal.iter().nth(number).unwrap())
        };
        assert_refused_with(file, |bytes| without_magic(bytes).split_off(3 * number));
    }
}

/// A checkpoint is a store of its own, beside the files of its store.
#[test]
fn a_checkpoint_of_a_later_format() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    original(&root);
    let (store, call) = (EngineStore::open(&root).unwrap(), Call::default());
    let outside = dir.path().join("checkpoint");
    let keep = Duration::from_secs(3_600);
    let inside = store.checkpoint(None, keep, &call).unwrap().path;
    store.checkpoint(Some(&outside), keep, &call).unwrap();
    for path in [&inside, &outside] {
        let file = path.join("MANIFEST");
        let later = with_format(&fs::read(&file).unwrap(), LATER_FORMATS[0]);
        fs::write(&file, later).unwrap();
        let before = tree(path);
        for (way, outcome) in openings(path) {
            assert_later(&outcome.unwrap_err(), &file, LATER_FORMATS[0], way);
        }
        assert_later(&recover(path).unwrap_err(), &file, LATER_FORMATS[0], "recover");
        assert_unchanged(path, &before, "a checkpoint");
    }
    // It may show what is erased, and nobody can tell.
    let before = [&inside, &outside].map(|path| tree(path));
    let table = store.table(&name("t")).unwrap();
    let erased = erase(&table, &[Target::Id("i9".to_owned())], 2_000).unwrap();
    let shown: Vec<&PathBuf> = erased.checkpoints.iter().map(|one| &one.path).collect();
    assert_eq!((erased.by_id, shown), (1, vec![&inside]));
    // Whether it is one of this store, nobody can tell either.
    let refused = store.remove_checkpoint(&outside, &call).unwrap_err();
    assert_later(&refused, &outside.join("MANIFEST"), LATER_FORMATS[0], "remove");
    drop((table, store));
    let store = EngineStore::open(&root).unwrap();
    load(&store.table(&name("t")).unwrap(), &mut Batches::of_rows(&rows(), 100)).unwrap();
    for (path, before) in [&inside, &outside].into_iter().zip(&before) {
        assert_unchanged(path, before, "after the next writer");
    }
}

/// What a reader has open stays readable when a later version writes the store.
#[test]
fn a_reader_keeps_its_version_when_a_later_format_comes() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    original(&root);
    let (reader, call) = (open_apart(&root), Call::default());
    let table = reader.table(&name("t")).unwrap();
    let journal = root.join("journal").join(listed(&root.join("journal")).last().unwrap());
    let mut next = fs::read(&journal).unwrap();
    // The next file, which the reader does not know yet.
    let number: u64 = journal.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    next[16..24].copy_from_slice(&(number + 1).to_le_bytes());
    let next_journal = root.join(format!("journal/{:010}.log", number + 1));
    for (file, bytes) in [(root.join("MANIFEST"), None), (next_journal, Some(next))] {
        let there = fs::read(&file).ok();
        let later = with_format(bytes.as_ref().or(there.as_ref()).unwrap(), LATER_FORMATS[0]);
        fs::write(&file, later).unwrap();
        let before = tree(&root);
        let refused = reader.refresh(&call).unwrap_err();
        assert_later(&refused, &file, LATER_FORMATS[0], "refresh");
        assert_eq!(count_rows(&table, &rows()), 299);
        assert_unchanged(&root, &before, "refresh");
        match there {
            Some(there) => fs::write(&file, there).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
    }
    reader.refresh(&call).unwrap();
}
