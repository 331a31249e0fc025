//! A store that an earlier version wrote opens and answers as it did then; one that a later
//! version wrote is refused by name.
//!
//! `golden/v2` was made by `cargo test -p idmatch-engine -- --ignored write_golden`. It stays as
//! it is when the writer changes; a new format gets a folder of its own.

use crate::common::{
    Batches, Question, Row, ask, assert_nothing_leaked, copy_store, create, erase, files, load,
    manifest, name, questions, rows_of_all_kinds, table_file, upsert, write_manifest, write_table,
};
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, Side, Target, Window};
use idmatch_store::{ErrorKind, OpenTables};
use idmatch_testkit::MemoryStore;
use std::fs;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64_with_seed;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2")
}

/// Loads both tables of the golden store.
fn fill(store: &dyn OpenTables) {
    let rows = rows();
    for (table, keep) in [("newest", Keep::Last), ("history", Keep::All)] {
        let table = create(store, table, keep).unwrap();
        load(&table, &mut Batches::of_rows(&rows[..30], 10)).unwrap();
        load(&table, &mut Batches::of_rows(&rows[20..], 10)).unwrap();
        upsert(&table, &mut Batches::of_rows(&[upserted()], 1)).unwrap();
        erase(&table, &[Target::Id(rows[7].0.clone())], rows[7].2).unwrap();
    }
}

/// A row of the journal.
fn upserted() -> Row {
    ("upserted".to_owned(), "partner".to_owned(), 1_700_000_000_000)
}

fn rows() -> Vec<Row> {
    rows_of_all_kinds(40)
}

#[test]
#[ignore = "writes golden/v2, which is committed; for a new format only"]
fn write_golden() {
    let root = golden();
    assert!(!root.exists(), "{} is there; remove it first if it is to be new", root.display());
    let store = EngineStore::open(&root).unwrap();
    fill(&store);
    store.end_writing().unwrap();
    fs::remove_file(root.join("LOCK")).unwrap();
    fs::remove_dir(root.join("scratch")).unwrap();
}

#[test]
fn a_store_of_format_2_answers() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    copy_store(&golden(), &root);
    let store = EngineStore::open(&root).unwrap();
    let reference = MemoryStore::new();
    fill(&reference);
    for table in store.tables().unwrap() {
        let (right, table) = (reference.table(&table).unwrap(), store.table(&table).unwrap());
        for question in questions(&[rows(), vec![upserted()]].concat(), &[Window::ALL]) {
            let answer = ask(&table, &question).unwrap();
            assert_eq!(answer, ask(&right, &question).unwrap(), "{question:?}");
        }
        assert_eq!(table.verify().unwrap(), []);
    }
    // One answer written out, so that the reference cannot drift together with the engine.
    let zeros = "0".repeat(32);
    let question = Question::Answers(Side::Id, zeros.clone(), Window::ALL);
    let answer = ask(&store.table(&name("history")).unwrap(), &question).unwrap();
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
        assert_eq!(bytes[at], b'2');
        bytes[at] = b'7';
    });
    let words = error.to_string();
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{words}");
    assert!(words.contains("manifest format 7"), "{words}");
    assert!(words.contains(dir.path().join("MANIFEST").to_str().unwrap()), "{words}");
}

#[test]
fn a_newer_segment_is_refused_by_its_number() {
    let (dir, error) = with_changed("segments/0000000001.seg", |bytes| {
        bytes[8..12].copy_from_slice(&3_u32.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[..144], 0);
        bytes[144..152].copy_from_slice(&sum.to_le_bytes());
    });
    let words = error.to_string();
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{words}");
    assert!(words.contains("segment format 3"), "{words}");
    assert!(
        words.contains(dir.path().join("segments/0000000001.seg").to_str().unwrap()),
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

#[test]
fn a_store_of_format_1_is_refused_by_its_number() {
    let root = golden().with_file_name("v1");
    let before = files(&root);
    let error = EngineStore::open(&root).unwrap_err();
    let words = error.to_string();
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{words}");
    assert!(words.contains("manifest format 1"), "{words}");
    assert!(words.contains("load the data again"), "{words}");
    assert_eq!(files(&root), before);
}

/// A later version of this format may have added it.
#[test]
fn a_key_that_is_not_known_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    copy_store(&golden(), dir.path());
    let mut json = manifest(dir.path()).unwrap();
    json["filters"] = serde_json::json!([]);
    write_manifest(dir.path(), &json);
    let error = EngineStore::open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{error}");
    let (_, mut json) = table_file(&golden(), "newest");
    copy_store(&golden(), dir.path());
    json["segments"][0]["filter"] = serde_json::json!(null);
    write_table(dir.path(), "newest", &json);
    let error = EngineStore::open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{error}");
}

/// What later versions of this one write is kept, with the files that it names.
#[test]
fn fields_of_later_features_are_written_back() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    copy_store(&golden(), root);
    // One file for each list that names some, with a number that the store has not used.
    let sum = "00000000000000ff";
    let files = ["100.era", "101.era", "103.era", "104.seg"];
    let files = files.map(|file| format!("{:0>14}", file));
    for file in &files {
        fs::write(root.join("segments").join(file), "later").unwrap();
    }
    let [erasures, of_name, deletes, aside] = files.each_ref();
    let mut json = manifest(root).unwrap();
    json["next_file"] = 200.into();
    json["erase_within"] = "30d".into();
    json["erasures"] = serde_json::json!([{"file": erasures, "count": 1, "sum": sum}]);
    json["names_erasures"] =
        serde_json::json!({"gone": [{"file": of_name, "count": 1, "sum": sum}]});
    write_manifest(root, &json);
    let (_, mut table) = table_file(root, "newest");
    let mut segment = table["segments"][0].clone();
    segment["file"] = aside.as_str().into();
    table["options"]["undo_for"] = "7d".into();
    table["kept"] = serde_json::json!([{"retention": "24mo", "until": 4_102_444_800_000_u64}]);
    table["epoch"] = 2.into();
    table["deletes"] = serde_json::json!([{"file": deletes, "load": 7, "sum": sum}]);
    table["put_aside"] =
        serde_json::json!([{"load": 6, "epoch": 1, "segments": [segment], "until": 9}]);
    table["next_load"] = 8.into();
    write_table(root, "newest", &table);

    let store = EngineStore::open(root).unwrap();
    load(&store.table(&name("newest")).unwrap(), &mut Batches::of_rows(&rows(), 10)).unwrap();
    store.end_writing().unwrap();
    // The first writer has left its note: this one removes what is unnamed.
    drop(store);
    let store = EngineStore::open(root).unwrap();
    load(&store.table(&name("newest")).unwrap(), &mut Batches::of_rows(&rows(), 10)).unwrap();
    let after = manifest(root).unwrap();
    for key in ["erase_within", "erasures", "names_erasures"] {
        assert_eq!(after[key], json[key], "{key}");
    }
    let (_, after) = table_file(root, "newest");
    for key in ["kept", "epoch", "deletes", "put_aside", "next_load"] {
        assert_eq!(after[key], table[key], "{key}");
    }
    assert_eq!(after["options"]["undo_for"], "7d");
    for file in &files {
        assert!(root.join("segments").join(file).exists(), "{file}");
    }
}
