//! The files of a store, looked at from outside.

use super::{FaultyDisk, create, name};
use idmatch_engine::EngineStore;
use idmatch_model::Keep;
use idmatch_store::{Call, Error, ErrorFields, OpenTables, Store};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The manifest, every segment and every journal file of a store.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let mut files = vec![root.join("MANIFEST")];
    for folder in ["segments", "journal"] {
        let folder = root.join(folder);
        files.extend(listed(&folder).iter().map(|name| folder.join(name)));
    }
    files
}

/// Copies a store file by file, to harm or open it elsewhere.
pub(crate) fn copy_store(from: &Path, to: &Path) {
    for folder in ["segments", "journal"] {
        fs::create_dir_all(to.join(folder)).unwrap();
    }
    for file in files(from) {
        fs::copy(&file, to.join(file.strip_prefix(from).unwrap())).unwrap();
    }
}

/// The folders of a store hold what its manifest names and nothing else.
pub(crate) fn assert_nothing_leaked(root: &Path) {
    wait_for_removals(root);
    let segments = listed(&root.join("segments"));
    // Before the first table there is no manifest, and nothing may be there either.
    let named = named_files(root);
    assert_eq!(segments, named, "segments/ of {}", root.display());
    assert_eq!(listed(&root.join("scratch")), BTreeSet::new(), "scratch/ of {}", root.display());
    assert_eq!(worthless(root), BTreeSet::new(), "journal/ of {}", root.display());
}

/// Journal files whose rows are in segments.
fn worthless(root: &Path) -> BTreeSet<String> {
    let first = manifest(root).map_or(0, |json| json["journal"]["first"].as_u64().unwrap());
    let first = format!("{first:010}.log");
    listed(&root.join("journal")).into_iter().filter(|name| *name < first).collect()
}

/// Waits until files that nothing reads any more are gone: a thread removes those whose last reader was not
/// their writer. Gives up after a minute.
pub(crate) fn wait_for_removals(root: &Path) {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        if listed(&root.join("segments")) == named_files(root) && worthless(root).is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The same after the next writers have removed what a failed or killed one left.
pub(crate) fn assert_nothing_leaks_for_long(root: &Path) {
    // The first one may find LOCK without a note: it removes nothing.
    for _ in 0..2 {
        let store = EngineStore::open(root).unwrap();
        match store.tables().unwrap().first() {
            Some(there) => {
                let table = store.table(there).unwrap();
                table.set_retention(table.options().unwrap().retention).unwrap();
            }
            // The catalog stays as it was.
            None => {
                create(&store, "new", Keep::Last).unwrap();
                store.drop_table(&name("new"), &Call::default()).unwrap();
            }
        }
        store.end_writing().unwrap();
    }
    assert_nothing_leaked(root);
}

/// Opens a store as another process does: it shares nothing with other handles.
pub(crate) fn open_apart(root: &Path) -> EngineStore {
    EngineStore::open_on(Arc::new(FaultyDisk::without_faults()), root).unwrap()
}

/// The damaged file that an error names as a value, and the offset of the damage.
pub(crate) fn damaged_place(error: &Error) -> (&str, Option<u64>) {
    match error.fields() {
        Some(ErrorFields::Corrupt { file, offset }) => (file, *offset),
        fields => panic!("{fields:?} of {error}"),
    }
}

/// The JSON of a manifest; `None` if there is none.
pub(crate) fn manifest(root: &Path) -> Option<Value> {
    sealed(&root.join("MANIFEST"))
}

/// The name of a table's file in the folder of segments, and its JSON.
pub(crate) fn table_file(root: &Path, table: &str) -> (String, Value) {
    let manifest = manifest(root).unwrap();
    let mut tables = manifest["tables"].as_object().unwrap().values();
    let named = tables.find(|named| named["name"] == table).unwrap();
    let file = named["file"].as_str().unwrap().to_owned();
    let json = sealed(&root.join("segments").join(&file)).unwrap();
    (file, json)
}

fn sealed(path: &Path) -> Option<Value> {
    let text = fs::read_to_string(path).ok()?;
    let (_, json) = text.split_once('\n').unwrap();
    Some(serde_json::from_str(json).unwrap())
}

fn named_files(root: &Path) -> BTreeSet<String> {
    let Some(manifest) = manifest(root) else { return BTreeSet::new() };
    let file = |entry: &Value| entry["file"].as_str().unwrap().to_owned();
    let names = manifest["names_erasures"].as_object().unwrap().values();
    let mut named: BTreeSet<_> =
        names.flat_map(|files| files.as_array().unwrap()).map(file).collect();
    named.extend(manifest["history"].as_array().unwrap().iter().map(file));
    let tables = manifest["tables"].as_object().unwrap().values();
    // A dropped table is needed as long as the journal has rows of it.
    for table in tables.chain(manifest["dropped"].as_array().unwrap()).map(file) {
        let text = fs::read_to_string(root.join("segments").join(&table)).unwrap();
        let json: Value = serde_json::from_str(text.split_once('\n').unwrap().1).unwrap();
        named.insert(table);
        for list in ["segments", "erasures"] {
            named.extend(json[list].as_array().unwrap().iter().map(file));
        }
    }
    named
}

/// The names in a folder; none if there is none.
pub(crate) fn listed(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeSet::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Writes a manifest with a checksum that fits.
pub(crate) fn write_manifest(root: &Path, json: &Value) {
    seal(&root.join("MANIFEST"), "manifest", json);
}

/// Writes a table file, and a manifest that names it as it is now.
pub(crate) fn write_table(root: &Path, table: &str, json: &Value) {
    let (file, _) = table_file(root, table);
    let (bytes, sum) = seal(&root.join("segments").join(&file), "table", json);
    let mut manifest = manifest(root).unwrap();
    for named in manifest["tables"].as_object_mut().unwrap().values_mut() {
        if named["name"] == table {
            named["bytes"] = bytes.into();
            named["sum"] = format!("{sum:016x}").into();
        }
    }
    write_manifest(root, &manifest);
}

fn seal(path: &Path, kind: &str, json: &Value) -> (usize, u64) {
    let json = serde_json::to_string_pretty(json).unwrap();
    let sum = xxhash_rust::xxh3::xxh3_64(json.as_bytes());
    let text = format!("idmatch-{kind} 2 {sum:016x}\n{json}");
    fs::write(path, &text).unwrap();
    (text.len(), sum)
}
