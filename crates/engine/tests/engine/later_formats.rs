//! A store with one file of a later format is refused by name, and no attempt changes it: files that every
//! reader needs. Those that only some calls read are in `later_formats_of_writes`.

use crate::common::{
    Batches, FaultyDisk, LATER_FORMATS, Row, assert_later, assert_unchanged, copy_store,
    count_rows, create, damaged_place, erase, load, name, open_apart, put_later, table_file, tree,
    upsert, with_format, without_magic,
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

/// A store with segments and erasures, of a table that is there and of one that was dropped.
fn original(root: &Path) {
    let store = EngineStore::open(root).unwrap();
    for table in ["t", "gone"] {
        let table = create(&store, table, Keep::Last).unwrap();
        load(&table, &mut Batches::of_rows(&rows()[..200], 100)).unwrap();
        assert_eq!(erase(&table, &[Target::Id("i7".to_owned())], 2_000).unwrap().by_id, 1);
        upsert(&table, &mut Batches::of_rows(&rows()[200..], 100)).unwrap();
    }
    store.drop_table(&name("gone"), &Call::default()).unwrap();
    store.end_writing().unwrap();
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
    for (number, harmed) in without_magic(&bytes).into_iter().enumerate() {
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
