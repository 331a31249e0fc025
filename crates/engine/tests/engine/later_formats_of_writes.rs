//! A file of a later format that only some calls read: these are refused by name, and change nothing.

use crate::common::{
    Batches, Child, LATER_FORMATS, Row, assert_later, assert_unchanged, count_rows, create,
    damaged_place, erase, hours_later, listed, load, manifest, name, observations, open_apart,
    tree, upsert, with_format, without_magic,
};
use idmatch_engine::EngineStore;
use idmatch_engine::disk::OsDisk;
use idmatch_model::{Keep, Target};
use idmatch_store::{
    Call, Error, ErrorKind, NewWrite, OpenTables, PartReceipt, Result, SessionAddress, Sharing,
    Store, Table, WriteKey, WriteKind, WriteSession,
};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LATER: u32 = LATER_FORMATS[0];

fn rows(numbers: Range<i64>) -> Vec<Row> {
    numbers.map(|n| (format!("i{n}"), format!("p{n}"), 1_000 + n)).collect()
}

fn batches(numbers: Range<i64>) -> Batches {
    Batches::of_rows(&rows(numbers), 10)
}

/// A store with 100 rows in segments and 20 in the journal.
fn begun(root: &Path) -> (EngineStore, Table) {
    let store = EngineStore::open(root).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut batches(0..100)).unwrap();
    upsert(&table, &mut batches(100..120)).unwrap();
    (store, table)
}

fn begin(table: &Table, kind: WriteKind, sharing: Sharing) -> Result<Box<dyn WriteSession>> {
    let (id, key) = (table.snapshot()?.id(), WriteKey::new("k").ok());
    table.begin(NewWrite { kind, key, sharing, ..NewWrite::load(id) })
}

fn stage(session: &dyn WriteSession, numbers: Range<i64>) -> PartReceipt {
    let mut part = session.part(Some(0)).unwrap();
    observations(&mut batches(numbers)).iter().for_each(|rows| part.add(rows).unwrap());
    part.finish(0).unwrap()
}

/// Makes one file later; returns its bytes before.
fn make_later(file: &Path) -> Vec<u8> {
    let bytes = fs::read(file).unwrap();
    fs::write(file, with_format(&bytes, LATER)).unwrap();
    bytes
}

/// Each of these calls must be refused because of a file, and the store stays as it is.
fn assert_all_refused(root: &Path, file: &Path, calls: &[(&str, &dyn Fn() -> Result<()>)]) {
    let before = tree(root);
    for (what, call) in calls {
        let Err(error) = call() else { panic!("{what} was not refused") };
        assert_later(&error, file, LATER, what);
        assert_unchanged(root, &before, what);
    }
}

/// The file of the only session of a store that has this ending.
fn staged(root: &Path, ending: &str) -> PathBuf {
    let staging = root.join("staging");
    let folder = staging.join(listed(&staging).first().unwrap());
    let names = listed(&folder);
    folder.join(names.iter().find(|name| name.ends_with(ending)).unwrap())
}

/// The note says which files writers keep: one that cannot read it must not write its own over it.
#[test]
fn a_note_in_lock_of_a_later_format_stops_every_writer_and_no_reader() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (store, table) = begun(&root);
    store.end_writing().unwrap();
    drop((table, store));
    let lock = root.join("LOCK");
    let noted = make_later(&lock);
    // What no manifest names: the next writer that can read the note decides about it.
    let unnamed = root.join("segments/0000009999.seg");
    fs::write(&unnamed, "of a later version").unwrap();
    let (store, call) = (EngineStore::open(&root).unwrap(), Call::default());
    let table = store.table(&name("t")).unwrap();
    let gone = [Target::Id("i7".to_owned())];
    assert_all_refused(
        &root,
        &lock,
        &[
            ("upsert", &|| upsert(&table, &mut batches(200..210))),
            ("load", &|| load(&table, &mut batches(200..210))),
            ("erase", &|| erase(&table, &gone, 2_000).map(drop)),
            ("create", &|| create(&store, "new", Keep::Last).map(drop)),
            ("rename", &|| store.rename_table(&name("t"), &name("u"), &call)),
            ("drop", &|| store.drop_table(&name("t"), &call)),
            ("set_retention", &|| table.set_retention(None)),
            ("begin", &|| begin(&table, WriteKind::Add, Sharing::Shared).map(drop)),
            ("compact", &|| table.compact()),
            ("repair", &|| table.repair(true).map(drop)),
            ("recover", &|| {
                EngineStore::recover(Arc::new(OsDisk), &root, (true, true), &call).map(drop)
            }),
        ],
    );
    for reader in [&store, &open_apart(&root)] {
        reader.refresh(&call).unwrap();
        assert_eq!(count_rows(&reader.table(&name("t")).unwrap(), &rows(0..210)), 120);
    }
    // Beside a note that it can read, a writer goes on and removes what is unnamed.
    fs::write(&lock, noted).unwrap();
    upsert(&table, &mut batches(200..210)).unwrap();
    assert_eq!(count_rows(&table, &rows(0..210)), 130);
    assert!(!unnamed.exists());
}

/// A load is refused at its commit; what writes no history goes on beside it.
#[test]
fn a_history_of_a_later_format_stops_commits() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (store, table) = begun(&root);
    let history = manifest(&root).unwrap()["history"][0]["file"].as_str().unwrap().to_owned();
    let history = root.join("segments").join(history);
    store.end_writing().unwrap();
    drop((table, store));
    let bytes = make_later(&history);
    let (store, call) = (EngineStore::open(&root).unwrap(), Call::default());
    let table = store.table(&name("t")).unwrap();
    assert_all_refused(
        &root,
        &history,
        &[
            ("load", &|| load(&table, &mut batches(200..210))),
            ("begin with a key", &|| begin(&table, WriteKind::Add, Sharing::Local).map(drop)),
            ("commit", &|| {
                let id = table.snapshot()?.id();
                let session =
                    table.begin(NewWrite { sharing: Sharing::Local, ..NewWrite::load(id) })?;
                let part = stage(&*session, 200..210);
                session.commit(&[part], &call).map(drop)
            }),
        ],
    );
    let [finding] = &table.verify().unwrap()[..] else { panic!("one finding") };
    assert_eq!(Path::new(&finding.place), history);
    assert!(finding.problem.contains("has history format 3, this version reads format 2"));
    upsert(&table, &mut batches(200..210)).unwrap();
    table.compact().unwrap();
    store.end_writing().unwrap();
    assert_eq!(count_rows(&table, &rows(0..210)), 130);
    assert_eq!(fs::read(&history).unwrap(), with_format(&bytes, LATER));

    // One that is no history keeps nobody from writing, but a key needs it.
    for harmed in without_magic(&bytes) {
        fs::write(&history, harmed).unwrap();
        let refused = begin(&table, WriteKind::Add, Sharing::Local).map(drop).unwrap_err();
        assert_damaged(&refused, &history);
    }
    fs::write(&history, bytes).unwrap();
    load(&table, &mut batches(210..220)).unwrap();
    assert_eq!(count_rows(&table, &rows(0..220)), 140);
}

fn assert_damaged(error: &Error, file: &Path) {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(Path::new(damaged_place(error).0), file, "{error}");
}

/// Erasures that a table left at its name are read when another table takes the name.
#[test]
fn erasures_of_a_later_format_stop_a_table_that_takes_them() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (store, table) = begun(&root);
    let call = Call::default();
    erase(&table, &[Target::Id("i7".to_owned())], 2_000).unwrap();
    create(&store, "other", Keep::Last).unwrap();
    store.drop_table(&name("t"), &call).unwrap();
    store.end_writing().unwrap();
    drop((table, store));
    let left = &manifest(&root).unwrap()["names_erasures"]["t"][0]["file"];
    let file = root.join("segments").join(left.as_str().unwrap());
    let bytes = make_later(&file);
    let store = EngineStore::open(&root).unwrap();
    assert_all_refused(
        &root,
        &file,
        &[
            ("create", &|| create(&store, "t", Keep::Last).map(drop)),
            ("rename", &|| store.rename_table(&name("other"), &name("t"), &call)),
        ],
    );
    for harmed in without_magic(&bytes) {
        fs::write(&file, harmed).unwrap();
        assert_damaged(&create(&store, "t", Keep::Last).map(drop).unwrap_err(), &file);
    }
    fs::write(&file, bytes).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    upsert(&table, &mut batches(0..20)).unwrap();
    assert_eq!(count_rows(&table, &rows(0..20)), 19);
}

/// A store that has a session whose note is of a later format; returns the note's file and its bytes before.
fn later_session(root: &Path, kind: WriteKind) -> (SessionAddress, PathBuf, Vec<u8>) {
    let (store, table) = begun(root);
    let address = begin(&table, kind, Sharing::Shared).unwrap().address();
    let file = staged(root, "SESSION");
    store.end_writing().unwrap();
    let bytes = make_later(&file);
    (address, file, bytes)
}

/// No writer removes it, though its age is unknown and it has no part yet.
#[test]
fn a_session_of_a_later_format_is_left_to_its_own_version() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (address, file, bytes) = later_session(&root, WriteKind::Add);
    let (store, call) = (EngineStore::open(&root).unwrap(), Call::default());
    let table = store.table(&name("t")).unwrap();
    assert_all_refused(
        &root,
        &file,
        &[
            ("resume", &|| store.resume(address, &call).map(drop)),
            ("begin with a key", &|| begin(&table, WriteKind::Add, Sharing::Shared).map(drop)),
        ],
    );
    let before = tree(&root.join("staging"));
    upsert(&table, &mut batches(200..210)).unwrap();
    assert_eq!(count_rows(&table, &rows(0..210)), 130);
    assert_unchanged(&root.join("staging"), &before, "another write");

    for harmed in without_magic(&bytes) {
        fs::write(&file, harmed).unwrap();
        assert_damaged(&store.resume(address, &call).map(drop).unwrap_err(), &file);
    }
    fs::write(&file, bytes).unwrap();
    let session = store.resume(address, &call).unwrap();
    let part = stage(&*session, 210..220);
    session.commit(&[part], &call).unwrap();
    assert_eq!(count_rows(&table, &rows(0..220)), 140);
}

/// Whether the replace still runs is unknown: nobody may end it, and nobody may write.
#[test]
fn a_replace_of_a_later_format_stops_writers() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (address, file, bytes) = later_session(&root, WriteKind::Replace);
    let (store, call) = (EngineStore::open(&root).unwrap(), Call::default());
    let table = store.table(&name("t")).unwrap();
    assert_all_refused(
        &root,
        &file,
        &[
            ("upsert", &|| upsert(&table, &mut batches(200..210))),
            ("load", &|| load(&table, &mut batches(200..210))),
            ("create", &|| create(&store, "new", Keep::Last).map(drop)),
            ("resume", &|| store.resume(address, &call).map(drop)),
        ],
    );
    assert_eq!(count_rows(&table, &rows(0..120)), 120);
    fs::write(&file, bytes).unwrap();
    let session = store.resume(address, &call).unwrap();
    let part = stage(&*session, 300..310);
    session.commit(&[part], &call).unwrap();
    assert_eq!(count_rows(&table, &rows(0..310)), 10);
}

#[test]
fn a_part_of_a_later_format_stops_the_commit_before_it_begins() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (_store, table) = begun(&root);
    let session = begin(&table, WriteKind::Add, Sharing::Shared).unwrap();
    let first = stage(&*session, 200..210);
    let file = staged(&root, ".part");
    let bytes = make_later(&file);
    // The lock of a session is made by the first that commits it.
    let commit = || session.commit(&[first], &Call::default()).map(drop);
    assert_later(&commit().unwrap_err(), &file, LATER, "the first commit");
    assert_all_refused(
        &root,
        &file,
        &[("commit", &commit), ("parts", &|| session.parts().map(drop))],
    );
    for harmed in without_magic(&bytes) {
        fs::write(&file, harmed).unwrap();
        assert_damaged(&commit().unwrap_err(), &file);
        assert_damaged(&session.parts().unwrap_err(), &file);
    }
    fs::write(&file, bytes).unwrap();
    // No commit has begun: parts can be added.
    let mut second = session.part(Some(1)).unwrap();
    observations(&mut batches(210..220)).iter().for_each(|rows| second.add(rows).unwrap());
    let second = second.finish(0).unwrap();
    session.commit(&[first, second], &Call::default()).unwrap();
    assert_eq!(count_rows(&table, &rows(0..220)), 140);
}

#[test]
fn a_commit_of_a_later_format_is_left_to_its_own_version() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (store, table) = begun(&root);
    let (session, call) =
        (begin(&table, WriteKind::Add, Sharing::Shared).unwrap(), Call::default());
    let receipt = stage(&*session, 200..210);
    // A commit that fails after it has begun: the end of its part is damaged.
    let part = staged(&root, ".part");
    let whole = fs::read(&part).unwrap();
    fs::write(&part, &whole[..whole.len() - 1]).unwrap();
    assert_damaged(&session.commit(&[receipt], &call).unwrap_err(), &part);
    fs::write(&part, whole).unwrap();
    let file = staged(&root, "COMMIT");
    let bytes = make_later(&file);
    assert_all_refused(
        &root,
        &file,
        &[
            ("commit", &|| session.commit(&[receipt], &call).map(drop)),
            ("parts", &|| session.parts().map(drop)),
            ("part", &|| session.part(Some(1)).map(drop)),
            ("abort", &|| session.abort()),
            ("begin with its key", &|| begin(&table, WriteKind::Add, Sharing::Shared).map(drop)),
        ],
    );
    let before = tree(&root.join("staging"));
    upsert(&table, &mut batches(210..220)).unwrap();
    assert_unchanged(&root.join("staging"), &before, "another write");
    // Nor is its time over for an older version.
    store.end_writing().unwrap();
    let tools = tempfile::tempdir().unwrap();
    let later = hours_later(tools.path(), 25);
    let later = [later[0].as_str(), &later[1]];
    let mut child = Child::start_within(&later, "shared_sessions::later_writer", &root);
    assert_eq!(child.hear().unwrap(), "done");
    child.finish();
    assert_unchanged(&root.join("staging"), &before, "a write on the next day");
    for harmed in without_magic(&bytes) {
        fs::write(&file, harmed).unwrap();
        assert_damaged(&session.commit(&[receipt], &call).unwrap_err(), &file);
    }
    fs::write(&file, bytes).unwrap();
    session.commit(&[receipt], &call).unwrap();
    assert_eq!(count_rows(&table, &rows(0..220)), 140);
}
