//! A store that an earlier version wrote opens and answers as it did then; one that a later
//! version wrote is refused by name.
//!
//! `golden/v1` was made by `cargo test -p idmatch-engine -- --ignored write_golden`. It stays as
//! it is when the writer changes; a new format gets a folder of its own.

use crate::common::{
    Batches, Question, Row, ask, assert_nothing_leaked, copy_store, create, files, load, name,
    questions, rows_of_all_kinds,
};
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, Side, Window};
use idmatch_store::{ErrorKind, Store};
use idmatch_testkit::MemoryStore;
use std::fs;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64_with_seed;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

/// Loads both tables of the golden store.
fn fill(store: &dyn Store) {
    let rows = rows();
    for (table, keep) in [("newest", Keep::Last), ("history", Keep::All)] {
        let table = create(store, table, keep).unwrap();
        load(&*table, &mut Batches::of_rows(&rows[..30], 10)).unwrap();
        load(&*table, &mut Batches::of_rows(&rows[20..], 10)).unwrap();
    }
}

fn rows() -> Vec<Row> {
    rows_of_all_kinds(40)
}

#[test]
#[ignore = "writes golden/v1, which is committed; for a new format only"]
fn write_golden() {
    let root = golden();
    assert!(!root.exists(), "{} is there; remove it first if it is to be new", root.display());
    fill(&EngineStore::open(&root).unwrap());
    fs::remove_file(root.join("LOCK")).unwrap();
    fs::remove_dir(root.join("scratch")).unwrap();
    assert_eq!(files(&root).len(), 9);
}

#[test]
fn a_store_of_format_1_answers() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    copy_store(&golden(), &root);
    let store = EngineStore::open(&root).unwrap();
    let reference = MemoryStore::new();
    fill(&reference);
    for table in store.tables().unwrap() {
        let (right, table) = (reference.table(&table).unwrap(), store.table(&table).unwrap());
        for question in questions(&rows(), &[Window::ALL]) {
            let answer = ask(&*table, &question).unwrap();
            assert_eq!(answer, ask(&*right, &question).unwrap(), "{question:?}");
        }
        assert_eq!(table.verify().unwrap(), []);
    }
    // One answer written out, so that the reference cannot drift together with the engine.
    let zeros = "0".repeat(32);
    let question = Question::Answers(Side::Id, zeros.clone(), Window::ALL);
    let answer = ask(&*store.table(&name("history")).unwrap(), &question).unwrap();
    let uuid = "00000074-0000-4000-8000-000000000074";
    assert_eq!(
        answer,
        [
            (zeros.clone(), uuid.to_owned(), 1_700_010_800_000),
            (zeros, "W".to_owned(), 1_700_000_000_000),
        ]
    );
    // It can be written on.
    fill(&store);
    assert_eq!(store.table(&name("newest")).unwrap().verify().unwrap(), []);
    assert_nothing_leaked(&root);
}

/// A copy of the golden store with one file changed.
fn with_changed(
    file: &str,
    change: impl Fn(&mut Vec<u8>),
) -> (tempfile::TempDir, idmatch_store::Error) {
    let dir = tempfile::tempdir().unwrap();
    copy_store(&golden(), dir.path());
    let path = dir.path().join(file);
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(&path, &bytes).unwrap();
    let error = EngineStore::open(dir.path()).unwrap_err();
    (dir, error)
}

#[test]
fn a_newer_manifest_is_refused_by_its_number() {
    let (dir, error) = with_changed("MANIFEST", |bytes| {
        let at = "idmatch-manifest ".len();
        assert_eq!(bytes[at], b'1');
        bytes[at] = b'7';
    });
    let words = error.to_string();
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{words}");
    assert!(words.contains("manifest format 7"), "{words}");
    assert!(words.contains(dir.path().join("MANIFEST").to_str().unwrap()), "{words}");
}

#[test]
fn a_newer_segment_is_refused_by_its_number() {
    let (dir, error) = with_changed("segments/0000000000.seg", |bytes| {
        bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[..104], 0);
        bytes[104..112].copy_from_slice(&sum.to_le_bytes());
    });
    let words = error.to_string();
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{words}");
    assert!(words.contains("segment format 2"), "{words}");
    assert!(
        words.contains(dir.path().join("segments/0000000000.seg").to_str().unwrap()),
        "{words}"
    );
}

/// A newer format may have other rules for everything that follows its number.
#[test]
fn a_newer_manifest_is_refused_before_its_content_is_read() {
    let (_dir, error) = with_changed("MANIFEST", |bytes| {
        *bytes = b"idmatch-manifest 12 with other words\nand no JSON".to_vec();
    });
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{error}");
    assert!(error.to_string().contains("manifest format 12"), "{error}");
}
