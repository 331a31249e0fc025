//! Recovery of a store that does not open: from the other direction, or by accepting a loss.

use crate::common::{
    Batches, Fault, FaultyDisk, Question, Row, ask, assert_nothing_leaks_for_long, copy_store,
    create, erase, files, load, manifest, name, open_apart, places, questions, rows_of_all_kinds,
    stride, upsert,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Side, Target, Window};
use idmatch_store::{Call, ErrorKind, Finding, OpenTables, Result, Store};
use idmatch_testkit::MemoryStore;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Each upsert is one record of the journal.
const UPSERTED: usize = 20;

/// A store with rows in segments and in the journal, and with an erasure; its reference.
fn original(root: &Path) -> (MemoryStore, Vec<Row>) {
    let rows = rows_of_all_kinds(300);
    let (reference, store) = (MemoryStore::new(), EngineStore::open(root).unwrap());
    for store in [&reference as &dyn OpenTables, &store] {
        let table = create(store, "t", Keep::Last).unwrap();
        load(&table, &mut Batches::of_rows(&rows[..200], 100)).unwrap();
        for row in rows[200..].chunks(100 / UPSERTED) {
            upsert(&table, &mut Batches::of_rows(row, 100)).unwrap();
        }
        erase(&table, &[Target::Id(rows[0].0.clone())], rows[0].2).unwrap();
    }
    store.end_writing().unwrap();
    (reference, rows)
}

fn recover(root: &Path, accept_loss: bool) -> Result<Vec<Finding>> {
    EngineStore::recover(Arc::new(OsDisk), root, (accept_loss, false), &Call::default())
}

fn answers(store: &dyn OpenTables, rows: &[Row]) -> Vec<Vec<Row>> {
    let table = store.table(&name("t")).unwrap();
    let asked = questions(rows, &[Window::ALL]);
    asked.iter().map(|question| ask(&table, question).unwrap()).collect()
}

type Pairs = BTreeMap<(String, String), i64>;

/// All pairs with their dates, asked by id.
fn pairs(store: &dyn OpenTables, rows: &[Row]) -> Pairs {
    let table = store.table(&name("t")).unwrap();
    let keys: BTreeSet<&String> = rows.iter().map(|(id, _, _)| id).collect();
    let of = |key: &String| Question::Answers(Side::Id, key.clone(), Window::ALL);
    let answers = keys.into_iter().flat_map(|key| ask(&table, &of(key)).unwrap());
    answers.map(|(id, partner_id, seen_at)| ((id, partner_id), seen_at)).collect()
}

/// Whether all there is is right, or was right before something that is gone.
fn is_part_of(there: &Pairs, right: &Pairs) -> bool {
    there.iter().all(|(pair, seen_at)| right.get(pair).is_some_and(|newest| seen_at <= newest))
}

fn ending(root: &Path, ending: &str) -> Vec<PathBuf> {
    let has = |path: &PathBuf| path.extension().is_some_and(|found| found == ending);
    files(root).into_iter().filter(has).collect()
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 0x24;
    std::fs::write(file, bytes).unwrap();
}

/// A copy of a store, to be harmed, and where a file of the store is in it.
fn copied(whole: &Path, file: &Path) -> (PathBuf, PathBuf) {
    let root = whole.with_file_name("harmed");
    if root.exists() {
        std::fs::remove_dir_all(&root).unwrap();
    }
    copy_store(whole, &root);
    let file = root.join(file.strip_prefix(whole).unwrap());
    (root, file)
}

fn contents(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = files(root);
    files.sort();
    files.into_iter().map(|file| (file.clone(), std::fs::read(&file).unwrap())).collect()
}

fn assert_whole(root: &Path, reference: &dyn OpenTables, rows: &[Row], place: &str) {
    let store = EngineStore::open(root).unwrap();
    assert_eq!(store.table(&name("t")).unwrap().verify().unwrap(), [], "{place}");
    assert!(answers(&store, rows) == answers(reference, rows), "{place}");
    store.end_writing().unwrap();
    assert_nothing_leaks_for_long(root);
}

#[test]
fn a_store_that_opens_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(recover(dir.path(), true).unwrap(), [], "there is none");
    original(dir.path());
    let before = contents(dir.path());
    assert_eq!(recover(dir.path(), true).unwrap(), []);
    assert!(contents(dir.path()) == before);
}

#[test]
fn a_segment_that_cannot_be_opened_comes_from_the_other_direction() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    let (reference, rows) = original(&whole);
    let segments = ending(&whole, "seg");
    assert_eq!(segments.len(), 2);
    for segment in segments {
        for at in [None, Some(0), Some(12), Some(30), Some(111)] {
            let (root, harmed) = copied(&whole, &segment);
            let place = format!("{segment:?}, {at:?}");
            match at {
                None => std::fs::remove_file(&harmed).unwrap(),
                Some(at) => flip(&harmed, at),
            }
            EngineStore::open(&root).unwrap_err();
            let found = recover(&root, false).unwrap();
            assert_eq!(found.len(), 1, "{place}: {found:?}");
            assert_eq!(found[0].place, harmed.display().to_string());
            assert_whole(&root, &reference, &rows, &place);
        }
    }
}

#[test]
fn recovery_requires_accept_loss() {
    let dir = tempfile::tempdir().unwrap();
    let (reference, rows) = original(dir.path());
    let segments = ending(dir.path(), "seg");
    segments.iter().for_each(|segment| std::fs::remove_file(segment).unwrap());
    let before = contents(dir.path());
    let refused = recover(dir.path(), false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(refused.to_string().contains("would be lost; nothing was changed"), "{refused}");
    assert!(contents(dir.path()) == before);
    let found = recover(dir.path(), true).unwrap();
    assert_eq!(found.len(), 3, "{found:?}");
    let store = EngineStore::open(dir.path()).unwrap();
    assert_eq!(store.table(&name("t")).unwrap().verify().unwrap(), []);
    let there = pairs(&store, &rows);
    let right = pairs(&reference, &rows);
    assert!(is_part_of(&there, &right) && there.len() >= 90, "{}", there.len());
}

#[test]
fn every_byte_of_a_journal_may_be_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    let (reference, rows) = original(&whole);
    let right = pairs(&reference, &rows);
    let journal = ending(&whole, "log").pop().unwrap();
    let length = std::fs::read(&journal).unwrap().len();
    let (mut lossless, mut lossy) = (0, 0);
    for at in places().map(|at| at as usize).take_while(|at| *at < length) {
        let (root, harmed) = copied(&whole, &journal);
        let place = format!("byte {at} of {length}");
        flip(&harmed, at);
        let before = contents(&root);
        let Err(refused) = EngineStore::open(&root) else { panic!("{place} was not noticed") };
        if refused.kind() == ErrorKind::UnsupportedFormat {
            // It says that it is of another version, which is not for us to recover.
            assert_eq!(recover(&root, true).unwrap_err().kind(), refused.kind(), "{place}");
        } else {
            match recover(&root, false) {
                Ok(found) => {
                    assert!(found.len() == 1 && at < 88, "{place}: {found:?}");
                    assert_whole(&root, &reference, &rows, &place);
                    lossless += 1;
                }
                Err(refused) => {
                    let text = refused.to_string();
                    assert!(text.contains("bytes of upserts would be lost"), "{place}: {text}");
                    assert!(contents(&root) == before, "{place}");
                    let found = recover(&root, true).unwrap();
                    assert_eq!(found.len(), 1, "{place}: {found:?}");
                    let store = EngineStore::open(&root).unwrap();
                    assert_eq!(store.table(&name("t")).unwrap().verify().unwrap(), [], "{place}");
                    let there = pairs(&store, &rows);
                    // One record is gone.
                    let most = 100 / UPSERTED;
                    assert!(
                        is_part_of(&there, &right) && there.len() + most >= right.len(),
                        "{place}"
                    );
                    lossy += 1;
                }
            }
        }
    }
    assert!(lossless * stride() > 15 && lossy * stride() > 1_500, "{lossless}, {lossy}");
}

#[test]
fn a_journal_that_is_gone_or_cut_short_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    let (reference, rows) = original(&whole);
    let right = pairs(&reference, &rows);
    let journal = ending(&whole, "log").pop().unwrap();
    let length = std::fs::read(&journal).unwrap().len() as u64;
    for left in [None, Some(0), Some(20), Some(length / 2), Some(length - 1)] {
        let (root, harmed) = copied(&whole, &journal);
        let place = format!("{left:?} bytes left");
        match left {
            None => std::fs::remove_file(&harmed).unwrap(),
            Some(left) => std::fs::File::options()
                .write(true)
                .open(&harmed)
                .and_then(|file| file.set_len(left))
                .unwrap(),
        }
        EngineStore::open(&root).unwrap_err();
        recover(&root, false).unwrap_err();
        assert!(!recover(&root, true).unwrap().is_empty(), "{place}");
        let store = EngineStore::open(&root).unwrap();
        assert!(is_part_of(&pairs(&store, &rows), &right), "{place}");
        let table = store.table(&name("t")).unwrap();
        upsert(&table, &mut Batches::of_rows(&rows[200..], 100)).unwrap();
        store.end_writing().unwrap();
        assert_whole(&root, &reference, &rows, &place);
    }
}

/// A failed write leaves a file that ends before it, which may be after the header.
#[test]
fn any_file_of_the_journal_may_be_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (mut files, mut empty) = (0, 0);
    for at in 0.. {
        let whole = dir.path().join(format!("at-{at}"));
        let full = Fault::Error(io::ErrorKind::StorageFull);
        let disk = Arc::new(FaultyDisk::new(at..at + 1, full));
        let limits = MemoryLimits::default();
        if let Ok(store) = EngineStore::open_with(disk.clone(), &whole, limits)
            && let Ok(table) = create(&store, "t", Keep::Last)
        {
            for row in rows_of_all_kinds(5).chunks(1) {
                upsert(&table, &mut Batches::of_rows(row, 1)).ok();
            }
            store.end_writing().ok();
        }
        if whole.join("MANIFEST").exists() {
            for journal in ending(&whole, "log") {
                let (root, harmed) = copied(&whole, &journal);
                empty += u64::from(harmed.metadata().unwrap().len() == 88);
                std::fs::remove_file(harmed).unwrap();
                recover(&root, true).unwrap();
                let store = EngineStore::open(&root).unwrap();
                if let Ok(table) = store.table(&name("t")) {
                    assert_eq!(table.verify().unwrap(), [], "operation {at}, {journal:?}");
                }
                files += 1;
            }
        }
        if !disk.was_hit() {
            break;
        }
    }
    assert!(files > 10 && empty > 0, "{files} files, {empty} of them empty");
}

#[test]
fn what_exists_once_needs_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    original(&whole);
    let erasures = ending(&whole, "era").pop().unwrap();
    for file in [whole.join("MANIFEST"), erasures] {
        let (root, harmed) = copied(&whole, &file);
        flip(&harmed, 40);
        // Also where nothing else is damaged.
        for is_segment_gone in [false, true] {
            if is_segment_gone {
                std::fs::remove_file(&ending(&root, "seg")[0]).unwrap();
            }
            let before = contents(&root);
            assert_eq!(recover(&root, true).unwrap_err().kind(), ErrorKind::Corrupt, "{file:?}");
            assert!(contents(&root) == before, "{file:?}");
        }
    }
}

#[test]
fn failed_recovery_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    let (reference, rows) = original(&whole);
    std::fs::remove_file(&ending(&whole, "seg")[0]).unwrap();
    flip(&ending(&whole, "log")[0], 20);
    for at in 0.. {
        let root = dir.path().join(format!("at-{at}"));
        copy_store(&whole, &root);
        let disk = Arc::new(FaultyDisk::new(at..at + 1, Fault::Error(io::ErrorKind::StorageFull)));
        EngineStore::recover(disk.clone(), &root, (false, false), &Call::default()).ok();
        recover(&root, false).unwrap();
        assert_whole(&root, &reference, &rows, &format!("operation {at}"));
        std::fs::remove_dir_all(&root).unwrap();
        if !disk.was_hit() {
            assert!(at > 20, "only {at} operations");
            break;
        }
    }
}

/// A process that has read the journal before it was damaged goes on with what the recovery has kept.
/// A reader knows how far it has read a file of this number.
#[test]
fn no_number_of_a_journal_file_is_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (_, rows) = original(&root);
    let reader = open_apart(&root);
    for journal in ending(&root, "log") {
        std::fs::remove_file(journal).unwrap();
    }
    let closed = manifest(&root).unwrap()["journal"]["closed"][0].as_u64().unwrap();
    recover(&root, true).unwrap();
    assert_eq!(manifest(&root).unwrap()["journal"]["first"], closed + 1);
    let later = ("later".to_owned(), rows[0].1.clone(), rows[0].2);
    let store = EngineStore::open(&root).unwrap();
    upsert(&store.table(&name("t")).unwrap(), &mut Batches::of_rows(&[later], 1)).unwrap();
    reader.refresh(&Call::default()).unwrap();
    let table = reader.table(&name("t")).unwrap();
    assert!(table.last_seen("later", &rows[0].1).unwrap().is_some());
}

#[test]
fn a_reader_goes_on_after_a_recovery() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let there = EngineStore::open(root).unwrap();
    let table = create(&there, "t", Keep::Last).unwrap();
    let row = |n: i64| (format!("id-{n}"), "p".to_owned(), n);
    for n in 0..9 {
        upsert(&table, &mut Batches::of_rows(&[row(n)], 1)).unwrap();
    }
    there.end_writing().unwrap();
    let journal = ending(root, "log").pop().unwrap();
    let half = std::fs::read(&journal).unwrap().len() / 2;
    flip(&journal, half);
    assert!(!recover(root, true).unwrap().is_empty());
    let kept = EngineStore::open(root).unwrap().table(&name("t")).unwrap();
    let kept: Vec<i64> =
        (0..9).filter(|n| kept.last_seen(&row(*n).0, "p").unwrap().is_some()).collect();
    assert_eq!(kept.len(), 8);
    there.refresh(&Call::default()).unwrap();
    for turn in 0..3 {
        let now = there.table(&name("t")).unwrap();
        for n in &kept {
            assert!(now.last_seen(&row(*n).0, "p").unwrap().is_some(), "turn {turn}, row {n}");
        }
        upsert(&now, &mut Batches::of_rows(&[row(100 + turn)], 1)).unwrap();
        now.compact().unwrap();
    }
    drop((table, there));
    let table = EngineStore::open(root).unwrap().table(&name("t")).unwrap();
    for n in kept.iter().copied().chain(100..103) {
        assert!(table.last_seen(&row(n).0, "p").unwrap().is_some(), "row {n} at the end");
    }
}
