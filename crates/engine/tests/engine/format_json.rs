//! The JSON files of a store have the keys that the tables of their pages name, and no others.

use crate::common::{
    Batches, EVENT_TIMEOUT, GatedDisk, KeyTable, Row, create, erase, listed, load, name,
    observations, open_apart, sealed_json, upsert,
};
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, Period, Target};
use idmatch_store::{
    Admin, Call, ErrorKind, NewWrite, OpenTables, Sharing, Store, Table, WriteKey, WriteKind,
    WriteSession,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn rows(count: i64) -> Vec<Row> {
    (0..count).map(|n| (format!("i{n}"), format!("p{n}"), 1_700_000_000_000 + n)).collect()
}

fn batches(count: i64) -> Batches {
    Batches::of_rows(&rows(count), 10)
}

/// Begins a replace that several processes stage.
fn begin(table: &Table) -> Box<dyn WriteSession> {
    let key = Some(WriteKey::new("monday").unwrap());
    let id = table.snapshot().unwrap().id();
    let sources = vec!["a.csv".to_owned()];
    let write = NewWrite {
        kind: WriteKind::Replace,
        key,
        sources,
        sharing: Sharing::Shared,
        ..NewWrite::load(id)
    };
    table.begin(write).unwrap()
}

/// The only entry of a folder.
fn only(folder: &Path) -> PathBuf {
    let names = listed(folder);
    assert_eq!(names.len(), 1, "{names:?}");
    folder.join(names.first().unwrap())
}

/// The JSON of the file that a manifest names.
fn named(root: &Path, kind: &str, entry: &Value) -> Value {
    sealed_json(kind, &root.join("segments").join(entry["file"].as_str().unwrap()))
}

fn compare(name: &str, files: &[Value]) {
    let mut table = KeyTable::named(name);
    files.iter().for_each(|json| table.compare(json));
    table.assert_all_compared();
}

#[test]
fn the_keys_of_json_are_those_of_the_pages() {
    let (dir, call) = (tempfile::tempdir().unwrap(), Call::default());
    let root = dir.path();
    let store = open_apart(root);
    let (table, gone) =
        (create(&store, "t", Keep::All).unwrap(), create(&store, "gone", Keep::Last).unwrap());
    load(&table, &mut batches(50)).unwrap();
    for table in [&table, &gone] {
        erase(table, &[Target::Id("i7".to_owned())], 1_700_000_000_100).unwrap();
    }
    table.set_retention(Some(Period::parse("40y").unwrap())).unwrap();
    store.checkpoint(None, DAY, &call).unwrap();
    let session = begin(&table);
    let mut parts = Vec::new();
    for number in [Some(3), None] {
        let mut part = session.part(number).unwrap();
        part.add(&observations(&mut batches(5))[0]).unwrap();
        parts.push(part.finish(2).unwrap());
    }
    store.end_writing().unwrap();

    // While another process writes, the commit begins and cannot be made.
    let disk = GatedDisk::new();
    let writer = EngineStore::open_on(disk.clone(), root).unwrap();
    upsert(&writer.table(&name("t")).unwrap(), &mut batches(3)).unwrap();
    let busy = session.commit(&parts, &call).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    // The flush that would forget the dropped table waits.
    let flush = disk.close_for(".seg");
    writer.drop_table(&name("gone"), &call).unwrap();
    flush.reached.recv_timeout(EVENT_TIMEOUT).unwrap();

    let manifest = sealed_json("manifest", &root.join("MANIFEST"));
    let checkpoint = only(&root.join("checkpoints")).join("MANIFEST");
    compare("manifest", &[manifest.clone(), sealed_json("manifest", &checkpoint)]);
    let tables: Vec<&Value> = manifest["tables"].as_object().unwrap().values().collect();
    compare("table", &[named(root, "table", tables[0])]);
    compare("history", &[named(root, "history", &manifest["history"][0])]);
    let lock = sealed_json("lock", &root.join("LOCK"));
    assert_eq!(
        [&lock["store"], &lock["generation"]],
        [&manifest["store"], &manifest["generation"]]
    );
    compare("lock", &[lock]);
    let dropped = manifest["dropped"][0]["generation"].as_u64().unwrap();
    assert_eq!(dropped + 1, manifest["generation"].as_u64().unwrap());

    let folder = only(&root.join("staging"));
    let staged = sealed_json("session", &folder.join("SESSION"));
    assert_eq!(staged["store"], manifest["store"]);
    assert_eq!(staged["session"], folder.file_name().unwrap().to_str().unwrap());
    let committed = sealed_json("commit", &folder.join("COMMIT"));
    for (part, listed) in parts.iter().zip(committed["parts"].as_array().unwrap()) {
        assert_eq!(listed["part"], format!("{:032x}", part.id));
        assert_eq!(listed["number"], serde_json::json!(part.number));
        assert_eq!([&listed["rows"], &listed["rejected"]], [5, 2]);
    }
    compare("session", &[staged]);
    compare("commit", &[committed]);
    flush.open.send(()).unwrap();
    writer.close().unwrap();
}
