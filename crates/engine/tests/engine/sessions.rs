//! Write sessions: staged in parts, committed once; replaces beside upserts, erasures and compactions.

use crate::common::{
    Batches, EVENT_TIMEOUT, GatedDisk, Paused, Row, assert_nothing_leaked,
    assert_nothing_leaks_for_long, copy_store, count_rows, create, erase, load, name, observations,
    open_apart, upsert,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Target};
use idmatch_store::{
    Call, ErrorKind, Ingest, NewWrite, NoRejects, OpenTables, PartReceipt, Result, Sharing, Store,
    Table, WriteKey, WriteKind, WriteSession, now,
};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// A part of a few hundred rows is more than what stays in memory.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 200,
    chunk_bytes: 500,
    run_bytes: 20_000,
    population_bytes: 2_000,
    memtable_bytes: 40_000,
};

fn open(root: &Path) -> EngineStore {
    EngineStore::open_with(Arc::new(OsDisk), root, LIMITS).unwrap()
}

fn row(number: usize) -> Row {
    (format!("i{number}"), format!("p{number}"), 1_000 + number as i64)
}

fn rows(numbers: Range<usize>) -> Batches {
    Batches::of_rows(&numbers.map(row).collect::<Vec<_>>(), 7)
}

/// How many of the rows with these numbers a table has, both directions alike.
fn count(table: &Table, numbers: Range<usize>) -> usize {
    count_rows(table, &numbers.map(row).collect::<Vec<_>>())
}

fn begin(table: &Table, kind: WriteKind, key: Option<&str>) -> Result<Box<dyn WriteSession>> {
    let id = table.snapshot()?.id();
    let key = key.map(|key| WriteKey::new(key).unwrap());
    table.begin(NewWrite { kind, key, sharing: Sharing::Local, ..NewWrite::load(id) })
}

/// Stages rows as one part, through a part writer.
fn stage(session: &dyn WriteSession, numbers: Range<usize>) -> Result<PartReceipt> {
    let mut part = session.part(None)?;
    for batch in observations(&mut rows(numbers)) {
        part.add(&batch)?;
    }
    part.finish(0)
}

fn kind_of<T>(outcome: Result<T>) -> ErrorKind {
    match outcome {
        Ok(_) => panic!("an error is expected"),
        Err(error) => error.kind(),
    }
}

#[test]
fn a_session_writes_exactly_the_parts_that_its_commit_names() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (table, call) = (create(&store, "t", Keep::Last).unwrap(), Call::default());
    let session = begin(&table, WriteKind::Add, None).unwrap();
    let parts: Vec<PartReceipt> = std::thread::scope(|scope| {
        let stage = |part: usize| {
            let session = &*session;
            scope.spawn(move || stage(session, part * 200..part * 200 + 200).unwrap())
        };
        let threads: Vec<_> = (0..8).map(stage).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // One that is dropped before its end was never there.
    let mut dropped = session.part(None).unwrap();
    dropped.add(&observations(&mut rows(5_000..5_001))[0]).unwrap();
    drop(dropped);
    assert_eq!(count(&table, 0..1_600), 0, "nothing is seen before the commit");

    let twice = [parts[0], parts[0]];
    assert_eq!(kind_of(session.commit(&twice, &call)), ErrorKind::InvalidArgument);
    let foreign = [PartReceipt { id: 1, ..parts[0] }];
    assert_eq!(kind_of(session.commit(&foreign, &call)), ErrorKind::InvalidArgument);
    let named: Vec<_> = parts[..7].iter().map(|p| PartReceipt { rejected: 2, ..*p }).collect();
    let outcome = session.commit(&named, &call).unwrap();
    assert_eq!((outcome.rows, outcome.rejected), (1_400, 14));
    assert_eq!(session.commit(&parts, &call).unwrap(), outcome, "the first outcome counts");
    assert_eq!(session.outcome(), Some(outcome));
    assert_eq!(count(&table, 0..1_400), 1_400);
    assert_eq!(count(&table, 1_400..1_600), 0);
    assert_eq!(kind_of(session.part(None).map(drop)), ErrorKind::Expired);
    assert_eq!(kind_of(session.abort()), ErrorKind::InvalidArgument);

    let other = begin(&table, WriteKind::Add, None).unwrap();
    let part = stage(&*other, 2_000..2_100).unwrap();
    other.abort().unwrap();
    assert_eq!(kind_of(other.commit(&[part], &call)), ErrorKind::Expired);
    drop((session, other));
    assert_eq!(count(&table, 2_000..2_100), 0);
    assert_nothing_leaked(dir.path());
}

#[test]
fn a_replace_keeps_what_is_acknowledged_after_its_begin() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (table, call) = (create(&store, "t", Keep::Last).unwrap(), Call::default());
    load(&table, &mut rows(0..300)).unwrap();
    upsert(&table, &mut rows(300..320)).unwrap();
    erase(&table, &[Target::Id("i410".into())], 9_000).unwrap();

    let session = begin(&table, WriteKind::Replace, None).unwrap();
    assert_eq!(kind_of(begin(&table, WriteKind::Replace, None).map(drop)), ErrorKind::Busy);
    upsert(&table, &mut rows(500..520)).unwrap();
    load(&table, &mut rows(600..620)).unwrap();
    let part = stage(&*session, 400..450).unwrap();
    erase(&table, &[Target::PartnerId("p411".into())], 9_000).unwrap();
    // Merges neither old rows into new ones nor the other way round.
    table.compact().unwrap();
    upsert(&table, &mut rows(520..530)).unwrap();
    let before = store.snapshot(&call).unwrap().table_named(&name("t"), &call).unwrap();
    assert_eq!(
        count(&table, 0..320) + count(&table, 500..530),
        350,
        "until the commit all is there"
    );

    session.commit(&[part], &call).unwrap();
    assert_eq!(count(&table, 0..320), 0);
    assert_eq!(count(&table, 400..450), 48, "erasures hide their rows");
    assert_eq!(count(&table, 500..530) + count(&table, 600..620), 50);
    assert!(before.last_seen("i7", "p7", &call).unwrap().is_some(), "a snapshot stays");
    assert_eq!(table.verify().unwrap(), []);
    drop(before);
    table.compact().unwrap();
    store.close().unwrap();
    drop((session, table, store));
    let store = open(dir.path());
    let table = store.table(&name("t")).unwrap();
    assert_eq!((count(&table, 0..320), count(&table, 400..620)), (0, 98));
    assert_eq!(table.verify().unwrap(), []);
    drop((table, store));
    assert_nothing_leaks_for_long(dir.path());
}

#[test]
fn a_replace_that_is_given_up_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut rows(0..300)).unwrap();
    for end in [true, false] {
        let session = begin(&table, WriteKind::Replace, None).unwrap();
        upsert(&table, &mut rows(300..320)).unwrap();
        stage(&*session, 400..900).unwrap();
        if end {
            session.abort().unwrap();
        }
        drop(session);
        assert_eq!(count(&table, 0..900), 320);
    }
    // All rows may be merged again.
    table.compact().unwrap();
    assert_eq!(table.stats().unwrap().segments % 2, 0);
    assert_eq!((count(&table, 0..320), table.verify().unwrap()), (320, Vec::new()));
    assert_nothing_leaked(dir.path());
}

#[test]
fn a_compaction_that_runs_during_the_commit_of_a_replace_brings_nothing_back() {
    let dir = tempfile::tempdir().unwrap();
    let disk = GatedDisk::new();
    let store = EngineStore::open_with(disk.clone(), dir.path(), LIMITS).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut rows(0..50)).unwrap();
    load(&table, &mut rows(25..75)).unwrap();
    let session = begin(&table, WriteKind::Replace, None).unwrap();
    let part = stage(&*session, 100..150).unwrap();
    std::thread::scope(|scope| {
        let gate = disk.close_for(".seg");
        let compacting = scope.spawn(|| table.compact());
        gate.reached.recv_timeout(EVENT_TIMEOUT).unwrap();
        session.commit(&[part], &Call::default()).unwrap();
        gate.open.send(()).unwrap();
        compacting.join().unwrap().unwrap();
    });
    assert_eq!((count(&table, 0..75), count(&table, 100..150)), (0, 50));
    assert_eq!(table.verify().unwrap(), []);
    drop(session);
    assert_nothing_leaked(dir.path());
}

#[test]
fn a_repair_ends_a_replace() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut rows(0..50)).unwrap();
    let session = begin(&table, WriteKind::Replace, None).unwrap();
    let part = stage(&*session, 100..150).unwrap();
    let segments = dir.path().join("segments");
    let names = std::fs::read_dir(&segments).unwrap().map(|e| e.unwrap().path());
    let damaged = names.filter(|path| path.extension().is_some_and(|e| e == "seg")).min().unwrap();
    let mut bytes = std::fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::remove_file(&damaged).unwrap();
    std::fs::write(&damaged, bytes).unwrap();
    drop((table, store));
    let store = EngineStore::open_on(Arc::new(OsDisk), dir.path()).unwrap();
    let table = store.table(&name("t")).unwrap();
    if !table.repair(true).unwrap().findings.is_empty() {
        assert_eq!(kind_of(session.commit(&[part], &Call::default())), ErrorKind::Expired);
        assert_eq!(count(&table, 100..150), 0);
    }
    assert_eq!(count(&table, 0..50), 50);
}

#[test]
fn a_key_has_one_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (table, call) = (create(&store, "t", Keep::Last).unwrap(), Call::default());
    let session = begin(&table, WriteKind::Add, Some("monday")).unwrap();
    let part = stage(&*session, 0..10).unwrap();
    let outcome = session.commit(&[part], &call).unwrap();
    // Another handle of the store, and one after a restart.
    store.close().unwrap();
    drop((session, table, store));
    let store = open(dir.path());
    let table = store.table(&name("t")).unwrap();
    let again = begin(&table, WriteKind::Add, Some("monday")).unwrap();
    assert_eq!(again.outcome(), Some(outcome));
    assert_eq!(again.commit(&[], &call).unwrap(), outcome);
    assert_eq!(kind_of(again.part(None).map(drop)), ErrorKind::Expired);
    let other_kind = begin(&table, WriteKind::Replace, Some("monday")).map(drop);
    assert_eq!(kind_of(other_kind), ErrorKind::InvalidArgument);
    // A key belongs to its table; a session that was not committed has used none.
    let other = create(&store, "other", Keep::Last).unwrap();
    assert_eq!(begin(&other, WriteKind::Add, Some("monday")).unwrap().outcome(), None);
    drop(begin(&table, WriteKind::Add, Some("tuesday")).unwrap());
    assert_eq!(begin(&table, WriteKind::Add, Some("tuesday")).unwrap().outcome(), None);
    // A keyed load is skipped as a whole.
    let key = Some(WriteKey::new("monday").unwrap());
    let write = NewWrite { key, ..NewWrite::load(table.snapshot().unwrap().id()) };
    let mut rejects = NoRejects;
    let (mut source, ingest) = (rows(50..60), Ingest::new(true, now(), &mut rejects));
    let repeated = table.store().load(write, &ingest.judged(&mut source), &call).unwrap();
    assert_eq!((repeated, ingest.rows()), (outcome, 0));
    assert_eq!(count(&table, 0..60), 10);
    for wrong in [String::new(), "k".repeat(129)] {
        assert_eq!(kind_of(WriteKey::new(&wrong)), ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_slow_source_keeps_no_other_load_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let [slow, quick] = ["slow", "quick"].map(|t| create(&store, t, Keep::Last).unwrap());
    let ((asked, was_asked), (resume, go_on)) = (channel(), channel());
    std::thread::scope(|scope| {
        let slow = &slow;
        let loading =
            scope.spawn(move || load(slow, &mut Paused { asked, go_on, rows: rows(0..500) }));
        was_asked.recv_timeout(EVENT_TIMEOUT).unwrap();
        // Neither that of another table, nor one of the same.
        load(&quick, &mut rows(0..500)).unwrap();
        load(slow, &mut rows(500..600)).unwrap();
        quick.compact().unwrap();
        assert_eq!((count(&quick, 0..500), count(slow, 0..600)), (500, 100));
        drop(resume);
        loading.join().unwrap().unwrap();
    });
    assert_eq!(count(&slow, 0..600), 600);
    assert_nothing_leaked(dir.path());
}

#[test]
fn a_session_without_the_lock_outlives_other_writers() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (table, call) = (create(&store, "t", Keep::Last).unwrap(), Call::default());
    load(&table, &mut rows(0..100)).unwrap();
    let [add, replace] =
        [WriteKind::Add, WriteKind::Replace].map(|kind| begin(&table, kind, None).unwrap());
    let parts = [stage(&*add, 200..600).unwrap(), stage(&*replace, 700..1_100).unwrap()];
    store.end_writing().unwrap();

    // Another process removes what dead writers left, and neither the files of these sessions nor the fence.
    let other = open_apart(dir.path());
    let theirs = other.table(&name("t")).unwrap();
    upsert(&theirs, &mut rows(100..110)).unwrap();
    theirs.compact().unwrap();
    assert_eq!(kind_of(add.commit(&parts[..1], &call)), ErrorKind::Busy);
    assert_eq!(kind_of(replace.commit(&parts[1..], &call)), ErrorKind::Busy);
    other.close().unwrap();
    drop((theirs, other));
    assert_eq!(add.commit(&parts[..1], &call).unwrap().rows, 400);
    assert_eq!(count(&table, 0..600), 510);
    assert_eq!(replace.commit(&parts[1..], &call).unwrap().rows, 400);
    assert_eq!((count(&table, 0..100), count(&table, 100..1_100)), (0, 810));
    assert_eq!(table.verify().unwrap(), []);
    drop((add, replace));
    assert_nothing_leaked(dir.path());
}

#[test]
fn the_next_writer_ends_the_replace_of_a_dead_process() {
    let (dir, dead) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(dir.path());
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut rows(0..100)).unwrap();
    let session = begin(&table, WriteKind::Replace, None).unwrap();
    stage(&*session, 200..900).unwrap();
    upsert(&table, &mut rows(100..110)).unwrap();
    // As a kill leaves it: the files, and nobody who has locked them.
    copy_store(dir.path(), dead.path());
    drop((session, table, store));

    let store = open(dead.path());
    let table = store.table(&name("t")).unwrap();
    upsert(&table, &mut rows(110..120)).unwrap();
    assert_eq!(count(&table, 0..900), 120);
    let session = begin(&table, WriteKind::Replace, None).unwrap();
    let part = stage(&*session, 300..310).unwrap();
    session.commit(&[part], &Call::default()).unwrap();
    assert_eq!((count(&table, 0..120), count(&table, 300..310)), (0, 10));
    drop((session, table, store));
    assert_nothing_leaks_for_long(dead.path());
}
