//! The values of errors: which file is damaged and where, and who writes a store.

use crate::common::{
    Batches, HarmedDisk, create, damaged_place, erase, files, load, manifest, name, open_apart,
    rows_of_all_kinds, upsert, write_manifest,
};
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, Target};
use idmatch_store::{BatchSource, Error, ErrorFields, ErrorKind, OpenTables, Result, SourceBatch};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A closed store with a file of each kind.
fn make(root: &Path) {
    let store = EngineStore::open(root).unwrap();
    let table = create(&store, "t", Keep::All).unwrap();
    let rows = rows_of_all_kinds(80);
    load(&table, &mut Batches::of_rows(&rows, 1_000)).unwrap();
    let (id, _, at) = &rows[7];
    assert!(erase(&table, &[Target::Id(id.clone())], *at).unwrap().by_id > 0);
    upsert(&table, &mut Batches::of_rows(&rows[..4], 4)).unwrap();
    store.end_writing().unwrap();
}

/// Puts another manifest in place while its rows are pulled.
struct Replacing<'p>(&'p Path, Batches);

impl BatchSource for Replacing<'_> {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let mut other = manifest(self.0).unwrap();
        other["publication"] = "0123456789abcdef".into();
        write_manifest(self.0, &other);
        self.1.next_batch()
    }
}

fn open_harmed(root: &Path, file: &Path, bytes: Vec<u8>) -> Result<EngineStore> {
    EngineStore::open_on(Arc::new(HarmedDisk::new(file, bytes)), root)
}

#[test]
fn a_flipped_byte_in_a_file_of_each_kind_names_that_file() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let mut kinds = BTreeSet::new();
    // The load history is read by writers and by `verify`.
    let is_opened = |file: &PathBuf| file.extension().is_none_or(|e| e != "his");
    for file in files(dir.path()).into_iter().filter(is_opened) {
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[40] ^= 0x10;
        let error = open_harmed(dir.path(), &file, bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        // Each of these files is read from its start.
        assert_eq!(damaged_place(&error), (file.to_str().unwrap(), Some(0)), "{error}");
        let ending = |kind: &std::ffi::OsStr| kind.to_str().unwrap().to_owned();
        kinds.insert(file.extension().map_or("MANIFEST".to_owned(), ending));
    }
    assert_eq!(kinds, ["MANIFEST", "era", "log", "seg", "tab"].map(String::from).into());
}

/// The only record of the journal is of a table that there is not, with a checksum that fits.
#[test]
fn a_malformed_record_of_the_journal_has_its_place() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let journals = files(dir.path()).into_iter();
    let file = journals.rev().find(|file| file.extension().is_some_and(|e| e == "log")).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    // A record has 32 bytes and its entries, of which each begins with the table.
    let record = &mut bytes[88..];
    record[32] ^= 0xff;
    let entries = u32::from_le_bytes(record[12..16].try_into().unwrap()) as usize;
    let size = (32 + entries).next_multiple_of(8);
    let number: u64 = file.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let sum = xxh3_64_with_seed(&record[8..size], number << 40 ^ 88);
    record[..8].copy_from_slice(&sum.to_le_bytes());
    let error = open_harmed(dir.path(), &file, bytes).unwrap_err();
    assert_eq!(damaged_place(&error), (file.to_str().unwrap(), Some(88)), "{error}");
    let start = format!("{}, offset 88: a record of the journal is whole but", file.display());
    assert!(error.to_string().starts_with(&start), "{error}");
}

#[test]
fn a_manifest_that_fits_its_checksum_and_no_store_is_named() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let whole = manifest(dir.path()).unwrap();
    let path = dir.path().join("MANIFEST");
    let mut no_key = whole.clone();
    no_key["erasure_key"] = "no key".into();
    let mut no_number = whole;
    no_number["next_file"] = "none".into();
    for json in [no_key, no_number] {
        write_manifest(dir.path(), &json);
        let error = EngineStore::open(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        let (file, offset) = damaged_place(&error);
        assert_eq!(file, path.to_str().unwrap());
        let start = format!("{file}, offset {}: ", offset.unwrap());
        assert!(error.to_string().starts_with(&start), "{error}");
    }
}

#[test]
fn a_replaced_manifest_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    let rows = Batches::of_rows(&rows_of_all_kinds(9), 9);
    let error = load(&table, &mut Replacing(dir.path(), rows)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let path = dir.path().join("MANIFEST");
    assert_eq!(damaged_place(&error), (path.to_str().unwrap(), None), "{error}");
}

#[test]
fn nobody_is_named_where_lock_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    let rows = rows_of_all_kinds(9);
    upsert(&table, &mut Batches::of_rows(&rows, 9)).unwrap();
    std::fs::write(dir.path().join("LOCK"), "no note").unwrap();
    let apart = open_apart(dir.path()).table(&name("t")).unwrap();
    let error: Error = upsert(&apart, &mut Batches::of_rows(&rows, 9)).unwrap_err();
    let unknown = ErrorFields::Busy { pid: None, program: None, since: None };
    assert_eq!((error.kind(), error.fields()), (ErrorKind::Busy, Some(&unknown)), "{error}");
    assert!(error.to_string().starts_with("another process is writing "), "{error}");
}
