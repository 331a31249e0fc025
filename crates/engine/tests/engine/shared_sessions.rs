//! Sessions that several processes stage, and any of them commits.

use crate::common::{
    Batches, Child, Fault, FaultyDisk, Role, Row, assert_nothing_leaked,
    assert_nothing_leaks_for_long, copy_store, count_rows, create, damaged_place, erase,
    hours_later, listed, load, name, observations, open_apart, places, report, role, stride,
    upsert,
};
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Target};
use idmatch_store::{
    Call, Committed, ErrorKind, NewWrite, OpenTables, PartReceipt, Result, SessionAddress,
    SessionId, Sharing, Store, Table, WriteKey, WriteKind, WriteSession,
};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn rows(numbers: Range<usize>) -> Vec<Row> {
    numbers.map(|n| (format!("i{n}"), format!("p{n}"), 1_000 + n as i64)).collect()
}

/// How many of the rows with these numbers a table has, both directions alike.
fn count(table: &Table, numbers: Range<usize>) -> usize {
    count_rows(table, &rows(numbers))
}

fn begin(table: &Table, kind: WriteKind, key: Option<&str>) -> Result<Box<dyn WriteSession>> {
    let id = table.snapshot()?.id();
    let key = key.map(|key| WriteKey::new(key).unwrap());
    table.begin(NewWrite { kind, key, sharing: Sharing::Shared, ..NewWrite::load(id) })
}

fn resume(store: &EngineStore, address: SessionAddress) -> Result<Box<dyn WriteSession>> {
    // As it goes to another process.
    store.resume(address.to_string().parse().unwrap(), &Call::default())
}

fn stage(
    session: &dyn WriteSession,
    number: Option<u32>,
    numbers: Range<usize>,
) -> Result<PartReceipt> {
    let mut part = session.part(number)?;
    for batch in observations(&mut Batches::of_rows(&rows(numbers), 7)) {
        part.add(&batch)?;
    }
    let part = part.finish(2)?;
    // As it goes to another process.
    assert_eq!(part.to_string().parse::<PartReceipt>().unwrap(), part);
    Ok(part)
}

fn commit(session: &dyn WriteSession, parts: &[PartReceipt]) -> Result<Committed> {
    session.commit(parts, &Call::default())
}

fn kind_of<T>(outcome: Result<T>) -> ErrorKind {
    match outcome {
        Ok(_) => panic!("an error is expected"),
        Err(error) => error.kind(),
    }
}

fn sessions(root: &Path) -> usize {
    listed(&root.join("staging")).len()
}

/// A store with a table of 100 rows.
fn begun(root: &Path) -> (EngineStore, Table) {
    let store = EngineStore::open(root).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut Batches::of_rows(&rows(0..100), 50)).unwrap();
    (store, table)
}

#[test]
fn others_stage_and_the_commit_takes_exactly_what_it_names() {
    let dir = tempfile::tempdir().unwrap();
    let (store, table) = begun(dir.path());
    let session = begin(&table, WriteKind::Add, None).unwrap();
    let others = [open_apart(dir.path()), open_apart(dir.path())];
    let [first, second] = others.each_ref().map(|o| resume(o, session.address()).unwrap());
    let twice =
        [stage(&*first, Some(0), 100..200).unwrap(), stage(&*second, Some(0), 100..200).unwrap()];
    let one = stage(&*second, Some(1), 200..300).unwrap();
    let unnumbered = stage(&*session, None, 300..310).unwrap();
    let left_out = stage(&*first, Some(2), 400..500).unwrap();
    let mut dropped = first.part(None).unwrap();
    dropped.add(&observations(&mut Batches::of_rows(&rows(500..501), 1))[0]).unwrap();
    drop(dropped);
    let mut all: Vec<_> = session.parts().unwrap().iter().map(|part| part.id).collect();
    let mut expected = [twice[0], twice[1], one, unnumbered, left_out].map(|part| part.id).to_vec();
    all.sort_unstable();
    expected.sort_unstable();
    assert_eq!(all, expected);
    assert_eq!(count(&table, 100..600), 0, "nothing is seen before the commit");

    let foreign = PartReceipt { id: 1, ..one };
    assert_eq!(kind_of(commit(&*session, &[foreign])), ErrorKind::InvalidArgument);
    assert_eq!(kind_of(commit(&*session, &[one, one])), ErrorKind::InvalidArgument);
    let named = [twice[1], twice[0], one, unnumbered];
    let outcome = commit(&*session, &named).unwrap();
    assert_eq!((outcome.rows, outcome.rejected), (210, 6));
    assert_eq!((count(&table, 0..310), count(&table, 400..600)), (310, 0));
    assert_eq!(table.verify().unwrap(), []);
    // Whoever asks gets the outcome, and nobody stages any more.
    assert_eq!(commit(&*session, &[]).unwrap(), outcome);
    assert_eq!(commit(&*first, &named).unwrap(), outcome);
    let later = resume(&others[1], session.address()).unwrap();
    assert_eq!((later.outcome(), commit(&*later, &[]).unwrap()), (Some(outcome), outcome));
    assert_eq!(kind_of(stage(&*second, Some(9), 0..1)), ErrorKind::Expired);
    assert_eq!(kind_of(second.abort()), ErrorKind::InvalidArgument);
    assert_eq!(sessions(dir.path()), 0);
    drop((store, session));
    assert_nothing_leaked(dir.path());
}

#[test]
fn a_replace_of_others_keeps_what_is_acknowledged_after_its_begin() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, table) = begun(dir.path());
    let session = begin(&table, WriteKind::Replace, None).unwrap();
    let (address, other) = (session.address(), open_apart(dir.path()));
    drop(session);
    assert_eq!(kind_of(begin(&table, WriteKind::Replace, None)), ErrorKind::Busy);
    upsert(&table, &mut Batches::of_rows(&rows(100..110), 5)).unwrap();
    let theirs = resume(&other, address).unwrap();
    let part = stage(&*theirs, Some(0), 200..250).unwrap();
    erase(&table, &[Target::Id("i203".into())], 90_000).unwrap();
    table.compact().unwrap();
    let ours = resume(&_store, address).unwrap();
    assert_eq!(commit(&*ours, &[part]).unwrap().rows, 50);
    assert_eq!((count(&table, 0..100), count(&table, 100..300)), (0, 59));
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn a_commit_that_finds_another_writer_is_made_later_by_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let (store, table) = begun(dir.path());
    let session = begin(&table, WriteKind::Add, None).unwrap();
    let parts = [0, 1].map(|n| stage(&*session, Some(n), 100..200).unwrap());
    let (address, part) = (session.address(), parts[0]);
    stage(&*session, Some(7), 300..400).unwrap();
    store.end_writing().unwrap();
    let writer = open_apart(dir.path());
    let theirs = writer.table(&name("t")).unwrap();
    upsert(&theirs, &mut Batches::of_rows(&rows(200..210), 5)).unwrap();
    let busy = commit(&*session, &[part]).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    assert!(busy.to_string().contains(&address.to_string()), "{busy}");
    drop((session, table, store));

    // The commit has begun: its parts are chosen.
    let late = resume(&writer, address).unwrap();
    assert_eq!(kind_of(stage(&*late, Some(8), 0..1)), ErrorKind::Expired);
    assert_eq!(kind_of(commit(&*late, &parts)), ErrorKind::InvalidArgument);
    assert_eq!(late.parts().unwrap(), [part]);
    assert_eq!(commit(&*late, &late.parts().unwrap()).unwrap().rows, 100);
    assert_eq!((count(&theirs, 0..210), count(&theirs, 300..400)), (210, 0));
}

/// Resumes the session that a process is told of. The process ends at the operation that it is told before.
fn resume_and_end(role: &Role) -> (EngineStore, Box<dyn WriteSession>) {
    let at: u64 = role.hear().unwrap().parse().unwrap();
    let address = role.hear().unwrap().parse().unwrap();
    let disk = Arc::new(FaultyDisk::new(at..at + 1, Fault::Abort));
    let store = EngineStore::open_with(disk, &role.store, MemoryLimits::default()).unwrap();
    let session = resume(&store, address).unwrap();
    (store, session)
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn committer() {
    let role = role();
    {
        let (_store, session) = resume_and_end(&role);
        commit(&*session, &session.parts().unwrap()).unwrap();
        role.tell("committed");
    }
    role.tell("over");
}

#[test]
fn a_committer_ends_at_every_operation_and_another_process_commits() {
    let (mut kills, mut committed) = (0, 0);
    for kind in [WriteKind::Add, WriteKind::Replace] {
        for at in places() {
            let place = format!("{kind:?}, operation {at}");
            let dir = tempfile::tempdir().unwrap();
            let (store, table) = begun(dir.path());
            let session = begin(&table, kind, None).unwrap();
            let address = session.address();
            let parts = [(0, 100..150), (1, 150..200)]
                .map(|(number, rows)| stage(&*session, Some(number), rows).unwrap());
            drop((session, table, store));
            let mut child = Child::start("shared_sessions::committer", dir.path());
            child.tell(&at.to_string());
            child.tell(&address.to_string());
            let told: Vec<String> = std::iter::from_fn(|| child.hear()).collect();

            let store = EngineStore::open(dir.path()).unwrap();
            let session = resume(&store, address).unwrap_or_else(|e| panic!("{place}: {e}"));
            let outcome = session.outcome();
            assert!(told.is_empty() || outcome.is_some(), "{place}: {told:?}");
            committed += u32::from(told.is_empty() && outcome.is_some());
            let again = commit(&*session, &parts).unwrap_or_else(|e| panic!("{place}: {e}"));
            assert_eq!((again.rows, again.rejected), (100, 4), "{place}");
            let table = store.table(&name("t")).unwrap();
            let old = if kind == WriteKind::Add { 100 } else { 0 };
            assert_eq!((count(&table, 0..100), count(&table, 100..200)), (old, 100), "{place}");
            // A pair that is there twice is shown once, and counted twice here.
            let stored = table.stats().unwrap().rows;
            assert_eq!(stored, old as u64 + 100, "{place}");
            assert_eq!(table.verify().unwrap(), [], "{place}");
            drop((session, table, store));
            assert_nothing_leaks_for_long(dir.path());
            assert_eq!(sessions(dir.path()), 0, "{place}");
            if told.len() == 2 {
                break;
            }
            kills += 1;
        }
    }
    report(&format!("kills: {kills} committers, {committed} of them had committed"));
    assert!(kills * stride() > 50, "{kills} kills");
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn stager() {
    let role = role();
    let (_store, session) = resume_and_end(&role);
    let part = stage(&*session, Some(0), 100..150).unwrap();
    role.tell(&part.to_string());
}

#[test]
fn a_stager_ends_at_every_operation_and_its_part_counts_once() {
    let mut kills = 0;
    for at in 0.. {
        let mut told = Vec::new();
        for are_all_named in [false, true] {
            let place = format!("operation {at}, all parts {are_all_named}");
            let dir = tempfile::tempdir().unwrap();
            let (_store, table) = begun(dir.path());
            let session = begin(&table, WriteKind::Add, None).unwrap();
            let mut child = Child::start("shared_sessions::stager", dir.path());
            child.tell(&at.to_string());
            child.tell(&session.address().to_string());
            told = std::iter::from_fn(|| child.hear()).collect();

            let mut named: Vec<PartReceipt> =
                told.iter().map(|part| part.parse().unwrap()).collect();
            for (number, rows) in [(0, 100..150), (1, 150..200)] {
                named.push(stage(&*session, Some(number), rows).unwrap());
            }
            // What was staged and not told is one of them, too.
            let all = session.parts().unwrap_or_else(|e| panic!("{place}: {e}"));
            assert!((2..=3).contains(&all.len()), "{place}: {all:?}");
            let outcome = commit(&*session, if are_all_named { &all } else { &named });
            assert_eq!(outcome.unwrap().rows, 100, "{place}");
            assert_eq!((count(&table, 0..200), table.stats().unwrap().rows), (200, 200), "{place}");
            assert_eq!(table.verify().unwrap(), [], "{place}");
            assert_eq!(sessions(dir.path()), 0, "{place}");
        }
        if !told.is_empty() {
            break;
        }
        kills += 1;
    }
    report(&format!("kills: {kills} stagers"));
    assert!(kills > 15, "{kills} kills");
}

#[test]
fn an_abort_or_a_begin_with_the_same_key_ends_it_for_all() {
    let dir = tempfile::tempdir().unwrap();
    let (store, table) = begun(dir.path());
    for kind in [WriteKind::Add, WriteKind::Replace] {
        let session = begin(&table, kind, Some("k")).unwrap();
        let other = open_apart(dir.path());
        let theirs = resume(&other, session.address()).unwrap();
        let mut open = theirs.part(Some(3)).unwrap();
        let part = stage(&*theirs, Some(0), 200..300).unwrap();
        match kind {
            WriteKind::Add => session.abort().unwrap(),
            WriteKind::Replace => drop(begin(&table, kind, Some("k")).unwrap()),
        }
        open.add(&observations(&mut Batches::of_rows(&rows(500..501), 1))[0]).unwrap();
        assert_eq!(kind_of(open.finish(0)), ErrorKind::Expired);
        assert_eq!(kind_of(stage(&*theirs, Some(1), 0..1)), ErrorKind::Expired);
        assert_eq!(kind_of(commit(&*theirs, &[part])), ErrorKind::Expired);
        assert_eq!(kind_of(resume(&other, session.address())), ErrorKind::Expired);
    }
    assert_eq!((count(&table, 0..300), sessions(dir.path())), (100, 1));
    let unknown = SessionAddress { table: table.snapshot().unwrap().id(), session: SessionId(7) };
    assert_eq!(kind_of(resume(&store, unknown)), ErrorKind::Expired);
}

/// The only session of a store, and its files by their ending.
fn folder(root: &Path, ending: &str) -> Vec<PathBuf> {
    let staging = root.join("staging");
    let folder = staging.join(listed(&staging).first().unwrap());
    let names = listed(&folder);
    names.iter().filter(|name| name.ends_with(ending)).map(|name| folder.join(name)).collect()
}

#[test]
fn a_harmed_part_is_found_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, table) = begun(dir.path());
    for at in 0..10 {
        let session = begin(&table, WriteKind::Add, Some("k")).unwrap();
        let part = stage(&*session, Some(0), 200..300).unwrap();
        let [file] = <[PathBuf; 1]>::try_from(folder(dir.path(), ".part")).unwrap();
        let mut bytes = fs::read(&file).unwrap();
        match at {
            8 => bytes.truncate(bytes.len() - 1),
            9 => bytes.push(0),
            at => {
                let place = at * (bytes.len() - 1) / 7;
                bytes[place] ^= 4;
            }
        }
        fs::write(&file, &bytes).unwrap();
        let harmed = commit(&*session, &[part]).unwrap_err();
        let kind = harmed.kind();
        // A byte of the format's number may be the one.
        assert!(matches!(kind, ErrorKind::Corrupt | ErrorKind::UnsupportedFormat), "{harmed}");
        if kind == ErrorKind::Corrupt {
            assert_eq!(damaged_place(&harmed).0, file.to_str().unwrap());
        }
        assert_eq!(count(&table, 0..400), 100);
    }
    // One of another session.
    let session = begin(&table, WriteKind::Add, Some("k")).unwrap();
    stage(&*session, Some(0), 200..300).unwrap();
    let foreign = folder(dir.path(), ".part").remove(0);
    let bytes = fs::read(&foreign).unwrap();
    let session = begin(&table, WriteKind::Add, Some("k")).unwrap();
    let part = stage(&*session, Some(0), 300..400).unwrap();
    fs::write(folder(dir.path(), ".part").remove(0), bytes).unwrap();
    assert_eq!(kind_of(commit(&*session, &[part])), ErrorKind::Corrupt);
    assert_eq!(count(&table, 0..400), 100);
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn later_writer() {
    let role = role();
    let (_, table) = {
        let store = EngineStore::open(&role.store).unwrap();
        let table = store.table(&name("t")).unwrap();
        (store, table)
    };
    upsert(&table, &mut Batches::of_rows(&rows(900..901), 1)).unwrap();
    role.tell("done");
}

#[test]
fn a_session_stays_for_a_day_after_its_newest_part() {
    let (dir, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, table) = begun(dir.path());
    let session = begin(&table, WriteKind::Replace, None).unwrap();
    stage(&*session, Some(0), 200..300).unwrap();
    drop((session, table, store));
    for (hours, left) in [(23, 1), (25, 0)] {
        let later = hours_later(tools.path(), hours);
        let later: Vec<&str> = later.iter().map(String::as_str).collect();
        let mut child = Child::start_within(&later, "shared_sessions::later_writer", dir.path());
        assert_eq!(child.hear().unwrap(), "done");
        child.finish();
        assert_eq!(sessions(dir.path()), left, "after {hours} hours");
    }
    let store = EngineStore::open(dir.path()).unwrap();
    let table = store.table(&name("t")).unwrap();
    drop(begin(&table, WriteKind::Replace, None).unwrap());
    assert_eq!(count(&table, 0..300), 100);
}

#[test]
fn a_session_is_of_its_store_and_no_copy_has_it() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, table) = begun(dir.path());
    let session = begin(&table, WriteKind::Replace, None).unwrap();
    stage(&*session, Some(0), 200..300).unwrap();
    copy_store(dir.path(), copy.path());
    let copied = EngineStore::open(copy.path()).unwrap();
    assert_eq!(kind_of(resume(&copied, session.address())), ErrorKind::Expired);
    let there = copied.table(&name("t")).unwrap();
    drop(begin(&there, WriteKind::Replace, Some("mine")).unwrap());
    drop((there, copied, store));
    fs::remove_dir_all(copy.path().join("staging")).unwrap();
    assert_nothing_leaks_for_long(copy.path());
}
