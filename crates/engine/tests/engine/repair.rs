//! Repair: what is damaged in one direction comes from the other; what is damaged in both is given up
//! only where that was accepted.

use crate::common::{
    Batches, EVENT_TIMEOUT, Fault, FaultyDisk, GatedDisk, Question, Row, ask, assert_cancelled,
    assert_nothing_leaked, copy_store, create, erase, files, load, name, questions,
    rows_of_all_kinds, upsert,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, SeenAt, Target, Window};
use idmatch_store::{
    Call, CopyOptions, ErrorKind, Ingest, NoRejects, OpenTables, Store, copy_table, now,
};
use idmatch_testkit::MemoryStore;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A store with rows in segments and in the journal, and with erasures; its reference.
fn original(root: &Path, keep: Keep) -> (MemoryStore, Vec<Row>) {
    let rows = rows_of_all_kinds(900);
    let (reference, store) = (MemoryStore::new(), EngineStore::open(root).unwrap());
    for store in [&reference as &dyn OpenTables, &store] {
        let table = create(store, "t", keep).unwrap();
        load(&table, &mut Batches::of_rows(&rows[..500], 100)).unwrap();
        load(&table, &mut Batches::of_rows(&rows[400..800], 100)).unwrap();
        upsert(&table, &mut Batches::of_rows(&rows[800..], 100)).unwrap();
        erase(&table, &[Target::Id(rows[0].0.clone())], rows[0].2).unwrap();
    }
    store.end_writing().unwrap();
    (reference, rows)
}

/// The segments of a side, by the byte in their headers.
fn segments(root: &Path, side: u8) -> Vec<PathBuf> {
    let is_of = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        bytes.starts_with(b"IDMSEG") && bytes[12] == side
    };
    files(root).into_iter().filter(is_of).collect()
}

/// Harms bytes of a file at a share of its length, after what is checked when it is opened.
fn harm(file: &Path, share: f64) {
    let mut bytes = std::fs::read(file).unwrap();
    let opened = u64::from_le_bytes(bytes[56..64].try_into().unwrap()) as usize;
    let at = opened + ((bytes.len() - opened - 1) as f64 * share) as usize;
    bytes[at] ^= 0x40;
    std::fs::write(file, bytes).unwrap();
}

fn answers(store: &dyn OpenTables, rows: &[Row]) -> Vec<Vec<Row>> {
    let table = store.table(&name("t")).unwrap();
    let asked = questions(rows, &[Window::ALL]);
    asked.iter().map(|question| ask(&table, question).unwrap()).collect()
}

#[test]
fn each_direction_is_rebuilt_from_the_other() {
    for (side, keep) in [(0, Keep::Last), (1, Keep::Last), (0, Keep::All), (1, Keep::All)] {
        let dir = tempfile::tempdir().unwrap();
        let (reference, rows) = original(dir.path(), keep);
        let harmed = segments(dir.path(), side);
        assert_eq!(harmed.len(), 2, "one of each load");
        for share in [0.0, 0.3, 0.6, 0.99] {
            segments(dir.path(), side).iter().for_each(|file| harm(file, share));
            let store = EngineStore::open(dir.path()).unwrap();
            let table = store.table(&name("t")).unwrap();
            let found = table.verify().unwrap();
            assert!(!found.is_empty(), "side {side}, {share}");
            let repaired = table.repair(false).unwrap();
            assert_eq!((&repaired.findings, repaired.lost_at_most), (&found, 0));
            assert_eq!(table.verify().unwrap(), []);
            assert!(answers(&store, &rows[..60]) == answers(&reference, &rows[..60]));
            assert_eq!(table.repair(false).unwrap().findings, [], "nothing is left to do");
            store.end_writing().unwrap();
            assert!(
                answers(&EngineStore::open(dir.path()).unwrap(), &rows)
                    == answers(&reference, &rows)
            );
            assert_nothing_leaked(dir.path());
        }
    }
}

#[test]
fn rows_that_are_flushed_during_a_repair_stay() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), GatedDisk::new());
    let (reference, rows) = original(dir.path(), Keep::All);
    segments(dir.path(), 0).iter().for_each(|file| harm(file, 0.5));
    let store = EngineStore::open_on(disk.clone(), dir.path()).unwrap();
    let table = store.table(&name("t")).unwrap();
    // It flushes the rows of the journal first.
    assert!(table.compact().is_err(), "a damaged segment was compacted");
    let gate = disk.close_for(".seg");
    let late = [("late".to_owned(), "p".to_owned(), 1_000)];
    std::thread::scope(|scope| {
        let repairing = scope.spawn(|| table.repair(false).unwrap());
        gate.reached.recv_timeout(EVENT_TIMEOUT).unwrap();
        let before = segments(dir.path(), 0).len();
        upsert(&table, &mut Batches::of_rows(&late, 1)).unwrap();
        while segments(dir.path(), 0).len() == before {
            // It flushes, then waits for the end of the repair.
            let soon = Call::default().until(Instant::now() + Duration::from_millis(60));
            assert_cancelled(table.with_call(soon).compact(), "a compaction during a repair");
        }
        gate.open.send(()).unwrap();
        assert!(!repairing.join().unwrap().findings.is_empty());
    });
    upsert(&reference.table(&name("t")).unwrap(), &mut Batches::of_rows(&late, 1)).unwrap();
    let asked: Vec<Row> = rows.into_iter().chain(late).collect();
    assert_eq!(table.verify().unwrap(), []);
    assert!(answers(&store, &asked) == answers(&reference, &asked));
    store.end_writing().unwrap();
    drop((table, store));
    assert!(
        answers(&EngineStore::open(dir.path()).unwrap(), &asked) == answers(&reference, &asked)
    );
    assert_nothing_leaked(dir.path());
}

/// A store whose rows are as late as a clock allows that was 10 minutes ahead of this one.
fn original_of_a_later_clock(root: &Path) -> (MemoryStore, Vec<Row>) {
    let later = now().millis_i64() + 10 * 60_000;
    let latest = later + 24 * 60 * 60_000;
    let row = |n: i64| (format!("id{n}"), format!("p{}", n % 7), latest - n);
    let rows: Vec<Row> = (0..500).map(row).collect();
    let (reference, store) = (MemoryStore::new(), EngineStore::open(root).unwrap());
    for store in [&reference as &dyn OpenTables, &store] {
        let table = create(store, "t", Keep::Last).unwrap();
        let (mut source, mut rejects) = (Batches::of_rows(&rows, 100), NoRejects);
        let ingest = Ingest::new(true, SeenAt::from_millis(later).unwrap(), &mut rejects);
        table.load(&ingest.judged(&mut source)).unwrap();
    }
    store.end_writing().unwrap();
    (reference, rows)
}

#[test]
fn stored_rows_are_repaired_recovered_and_copied_whatever_the_clock() {
    let dir = tempfile::tempdir().unwrap();
    let (repaired, recovered) = (dir.path().join("repaired"), dir.path().join("recovered"));
    let (reference, rows) = original_of_a_later_clock(&repaired);
    copy_store(&repaired, &recovered);
    let right = answers(&reference, &rows);

    harm(&segments(&repaired, 0)[0], 0.5);
    let store = EngineStore::open(&repaired).unwrap();
    let table = store.table(&name("t")).unwrap();
    assert_eq!(table.repair(false).unwrap().lost_at_most, 0);
    assert!(answers(&store, &rows) == right, "repaired");

    std::fs::remove_file(&segments(&recovered, 1)[0]).unwrap();
    assert_eq!(
        EngineStore::recover(Arc::new(OsDisk), &recovered, (false, false), &Call::default())
            .unwrap()
            .len(),
        1
    );
    assert!(answers(&EngineStore::open(&recovered).unwrap(), &rows) == right, "recovered");

    let copied = EngineStore::open(&dir.path().join("copied")).unwrap();
    for to in [Arc::new(copied) as Arc<dyn Store>, Arc::new(MemoryStore::new())] {
        let (options, call) = (CopyOptions::default(), Call::default());
        let done = copy_table(&table, &to, &name("t"), options, &call).unwrap();
        assert_eq!((done.sent, done.source), (500, done.destination));
        assert!(answers(&to, &rows) == right, "copied");
    }
}

#[test]
fn what_is_damaged_in_both_needs_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let (reference, rows) = original(dir.path(), Keep::Last);
    for side in [0, 1] {
        harm(&segments(dir.path(), side)[0], 0.5);
    }
    let before: BTreeSet<PathBuf> = files(dir.path()).into_iter().collect();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = store.table(&name("t")).unwrap();
    let refused = table.repair(false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(refused.to_string().contains("would be lost; nothing was changed"), "{refused}");
    let harmed: Vec<PathBuf> = [0, 1].map(|side| segments(dir.path(), side)[0].clone()).into();
    assert!(harmed.iter().all(|file| before.contains(file)), "still there");
    assert!(!table.verify().unwrap().is_empty());

    let repaired = table.repair(true).unwrap();
    assert!(repaired.lost_at_most > 0 && repaired.lost_at_most < 500, "{repaired:?}");
    assert_eq!(table.verify().unwrap(), []);
    // What is there is right; what is not is no more than was said.
    let pairs = |store: &dyn OpenTables| -> BTreeSet<Row> {
        let keys = rows.iter().map(|row| row.0.clone()).collect::<BTreeSet<_>>();
        let table = store.table(&name("t")).unwrap();
        let of = |key| Question::Answers(idmatch_model::Side::Id, key, Window::ALL);
        keys.into_iter().flat_map(|key| ask(&table, &of(key)).unwrap()).collect()
    };
    let (there, right) = (pairs(&store), pairs(&reference));
    let keys = |pairs: &BTreeSet<Row>| -> BTreeSet<(String, String)> {
        pairs.iter().map(|(id, partner_id, _)| (id.clone(), partner_id.clone())).collect()
    };
    assert!(keys(&there).is_subset(&keys(&right)));
    assert!(right.len() - there.len() <= repaired.lost_at_most as usize);
}

#[test]
fn a_repair_that_fails_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    let (reference, rows) = original(&whole, Keep::Last);
    harm(&segments(&whole, 0)[0], 0.5);
    let right = answers(&reference, &rows[..40]);
    for at in 0.. {
        let root = dir.path().join(format!("at-{at}"));
        copy_store(&whole, &root);
        let disk = Arc::new(FaultyDisk::new(at..at + 1, Fault::Error(io::ErrorKind::StorageFull)));
        let limits = MemoryLimits::default();
        if let Ok(store) = EngineStore::open_with(disk.clone(), &root, limits) {
            let table = store.table(&name("t")).unwrap();
            if table.repair(false).is_err() {
                // The fault is over: the same handle does it, if it is not done.
                table.repair(false).unwrap();
            }
            store.end_writing().ok();
        }
        let store = EngineStore::open(&root).unwrap();
        let table = store.table(&name("t")).unwrap();
        table.repair(false).unwrap();
        assert_eq!(table.verify().unwrap(), [], "operation {at}");
        assert!(answers(&store, &rows[..40]) == right, "operation {at}");
        drop((table, store));
        std::fs::remove_dir_all(&root).unwrap();
        if !disk.was_hit() {
            assert!(at > 40, "only {at} operations");
            break;
        }
    }
}
