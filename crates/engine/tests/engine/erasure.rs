//! Erasure: what is erased is hidden at once and for good, and its bytes go.

use crate::common::{
    Batches, Row, ask, assert_nothing_leaked, create, erase, files, load, name, questions,
    rows_of_all_kinds, upsert, wait_for_removals,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Period, Side, TableOptions, Target, Window};
use idmatch_store::{Admin, Call, Erased, ErrorKind, OpenTables, Store, Table, now};
use idmatch_testkit::MemoryStore;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const ID: &str = "somebody.to.forget@mail.example";
const PARTNER_ID: &str = "the-partner-s-name-for-them";
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 200,
    chunk_bytes: 4_000,
    run_bytes: 60_000,
    population_bytes: 4_000,
    memtable_bytes: 20_000,
};

fn open(root: &Path) -> EngineStore {
    EngineStore::open_with(Arc::new(OsDisk), root, LIMITS).unwrap()
}

fn secret_rows() -> Vec<Row> {
    let row = |id: &str, partner_id: &str, at: i64| (id.to_owned(), partner_id.to_owned(), at);
    vec![row(ID, "p1", 10), row(ID, PARTNER_ID, 20), row("someone else", PARTNER_ID, 5)]
}

fn targets() -> Vec<Target> {
    vec![Target::Id(ID.to_owned()), Target::PartnerId(PARTNER_ID.to_owned())]
}

/// The files of a store in which a text is.
fn files_with(root: &Path, text: &str) -> Vec<String> {
    wait_for_removals(root);
    let has = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    files(root)
        .into_iter()
        .filter(|path| has(&std::fs::read(path).unwrap()))
        .map(|path| path.display().to_string())
        .collect()
}

fn answers(table: &Table, side: Side, key: &str) -> Vec<Row> {
    ask(table, &crate::common::Question::Answers(side, key.to_owned(), Window::ALL)).unwrap()
}

fn assert_hidden(table: &Table) {
    assert_eq!(answers(table, Side::Id, ID), []);
    assert_eq!(answers(table, Side::PartnerId, PARTNER_ID), []);
    assert_eq!(answers(table, Side::Id, "someone else"), []);
    assert!(answers(table, Side::PartnerId, "p1").iter().all(|(_, id, _)| id != ID));
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn erased_bytes_are_in_no_file_after_a_compaction() {
    // Loaded and in segments; upserted and in the journal; both.
    for (in_load, in_upsert) in [(true, false), (false, true), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let table = create(&store, "t", Keep::All).unwrap();
        let rows = rows_of_all_kinds(900);
        load(&table, &mut Batches::of_rows(&rows[..400], 100)).unwrap();
        let mut secret = secret_rows();
        if in_load {
            load(&table, &mut Batches::of_rows(&secret, 1)).unwrap();
        }
        secret.iter_mut().for_each(|row| row.2 += 1);
        if in_upsert {
            upsert(&table, &mut Batches::of_rows(&secret, 1)).unwrap();
        }
        upsert(&table, &mut Batches::of_rows(&rows[400..], 100)).unwrap();
        // The search finds what is there.
        assert_ne!(files_with(dir.path(), ID), [""; 0]);
        assert_ne!(files_with(dir.path(), PARTNER_ID), [""; 0]);

        let found = 3 * (u64::from(in_load) + u64::from(in_upsert));
        let erased = erase(&table, &targets(), 100).unwrap();
        assert_eq!((erased.by_id, erased.by_partner_id), (found, found));
        assert_hidden(&table);
        table.compact().unwrap();
        assert_hidden(&table);
        assert_eq!(files_with(dir.path(), ID), [""; 0]);
        assert_eq!(files_with(dir.path(), PARTNER_ID), [""; 0]);
        assert_nothing_leaked(dir.path());

        // It is not in them either after it has come again, late.
        upsert(&table, &mut Batches::of_rows(&secret, 1)).unwrap();
        load(&table, &mut Batches::of_rows(&secret, 1)).unwrap();
        assert_hidden(&table);
        table.compact().unwrap();
        assert_eq!(files_with(dir.path(), ID), [""; 0]);
        assert_eq!(erase(&table, &targets(), 100).unwrap(), Erased::default());
    }
}

#[test]
fn a_backup_and_a_reopened_store_remember() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let store = open(&root);
    let reader = open(&root);
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut Batches::of_rows(&secret_rows(), 1)).unwrap();
    reader.refresh(&Call::default()).unwrap();
    let read = reader.table(&name("t")).unwrap();
    assert_ne!(answers(&read, Side::Id, ID), []);
    erase(&table, &targets(), 100).unwrap();
    reader.refresh(&Call::default()).unwrap();
    assert_hidden(&read);

    let backup = dir.path().join("backup");
    store.backup(&backup, &Call::default()).unwrap();
    store.end_writing().unwrap();
    EngineStore::restore(&backup, &dir.path().join("restored"), true, &Call::default()).unwrap();
    for place in ["store", "backup", "restored"] {
        let store = open(&dir.path().join(place));
        let table = store.table(&name("t")).unwrap();
        assert_hidden(&table);
        load(&table, &mut Batches::of_rows(&secret_rows(), 1)).unwrap();
        upsert(&table, &mut Batches::of_rows(&secret_rows(), 1)).unwrap();
        assert_hidden(&table);
        // What was seen later is not meant.
        let later = vec![(ID.to_owned(), PARTNER_ID.to_owned(), 101)];
        upsert(&table, &mut Batches::of_rows(&later, 1)).unwrap();
        assert_eq!(answers(&table, Side::PartnerId, PARTNER_ID).len(), 1);
    }
}

#[test]
fn many_erasures_make_few_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (reference, mut most) = (MemoryStore::new(), 0);
    let expected = create(&reference, "t", Keep::All).unwrap();
    let table = create(&store, "t", Keep::All).unwrap();
    let rows = rows_of_all_kinds(600);
    for table in [&expected, &table] {
        load(table, &mut Batches::of_rows(&rows, 100)).unwrap();
    }
    for (id, partner_id, at) in rows.iter().step_by(3).cloned() {
        let target = match at % 3 {
            0 => Target::Id(id),
            1 => Target::PartnerId(partner_id),
            _ => Target::Pair { id, partner_id },
        };
        let targets = [target];
        let right = erase(&expected, &targets, at - 1).unwrap();
        assert_eq!(erase(&table, &targets, at - 1).unwrap(), right);
        let erasures = |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "era");
        most = most.max(files(dir.path()).iter().filter(erasures).count());
    }
    assert!(most <= 6, "{most} files of 200 erasures");
    for again in 0..3 {
        if again == 1 {
            table.compact().unwrap();
        }
        let reopened = open(dir.path());
        let table = reopened.table(&name("t")).unwrap();
        for question in questions(&rows[..200], &[Window::ALL]) {
            let right = ask(&expected, &question).unwrap();
            assert_eq!(ask(&table, &question).unwrap(), right, "{question:?}");
        }
        assert_eq!(table.verify().unwrap(), []);
    }
    assert_nothing_leaked(dir.path());
}

#[test]
fn erasing_goes_on_beside_writers_and_merges() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let table = create(&store, "t", Keep::Last).unwrap();
    let is_done = AtomicBool::new(false);
    let row = |n: usize, at: i64| (format!("erased-{n}"), format!("p{}", n % 50), at);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                table.compact().unwrap();
            }
        });
        scope.spawn(|| {
            for round in 0.. {
                if is_done.load(Relaxed) {
                    break;
                }
                // All of it is hidden, or will be: dates are before those of the erasures.
                let rows: Vec<Row> = (0..300).map(|n| row(n, round % 50)).collect();
                upsert(&table, &mut Batches::of_rows(&rows, 100)).unwrap();
                load(&table, &mut Batches::of_rows(&rows, 100)).unwrap();
            }
        });
        for n in 0..300 {
            erase(&table, &[Target::Id(format!("erased-{n}"))], 50).unwrap();
            // In this thread's order: erased before it is asked for.
            for seen in [n / 2, n] {
                assert_eq!(answers(&table, Side::Id, &format!("erased-{seen}")), []);
            }
            let partner = format!("p{}", n % 50);
            let left = answers(&table, Side::PartnerId, &partner);
            let is_erased = |id: &str| id["erased-".len()..].parse::<usize>().unwrap() <= n;
            assert!(left.iter().all(|(_, id, _)| !is_erased(id)), "{n}: {left:?}");
        }
        is_done.store(true, Relaxed);
    });
    assert_eq!(table.verify().unwrap(), []);
    table.compact().unwrap();
    assert_eq!(table.stats().unwrap().rows, 0);
    assert_eq!(files_with(dir.path(), "erased-"), [""; 0]);
}

#[test]
fn another_retention_counts_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let options = TableOptions { keep: Keep::Last, retention: Period::parse("30d").ok() };
    let table = store.table_with(&name("t"), &options).unwrap();
    let days_ago = |days: i64| now().millis_i64() - days * 86_400_000;
    let rows: Vec<Row> =
        [1, 20, 40].map(|days| ("a".into(), format!("p{days}"), days_ago(days))).into();
    load(&table, &mut Batches::of_rows(&rows, 10)).unwrap();
    let shown = |store: &EngineStore| {
        let table = store.table(&name("t")).unwrap();
        answers(&table, Side::Id, "a").into_iter().map(|row| row.1).collect::<Vec<_>>()
    };
    assert_eq!(shown(&store), ["p1", "p20"]);
    table.set_retention(Period::parse("10d").ok()).unwrap();
    assert_eq!(shown(&store), ["p1"]);
    table.set_retention(None).unwrap();
    assert_eq!(shown(&store), ["p1", "p20", "p40"], "nothing is gone before a compaction");
    assert_eq!(table.options().unwrap().retention, None);
    // The handle still writes, although it was made with other options.
    load(&table, &mut Batches::of_rows(&rows, 10)).unwrap();
    upsert(&table, &mut Batches::of_rows(&rows, 10)).unwrap();
    table.set_retention(Period::parse("30d").ok()).unwrap();
    table.compact().unwrap();
    table.set_retention(None).unwrap();
    assert_eq!(shown(&open(dir.path())), ["p1", "p20", "p40"], "nor within a day of a change");
}

#[test]
fn a_table_that_is_not_there_yet_has_nothing_to_erase() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(open(dir.path()));
    let absent = Table::named(&store, &name("other"));
    assert_eq!(erase(&absent, &targets(), 5).unwrap_err().kind(), ErrorKind::TableNotFound);
}
