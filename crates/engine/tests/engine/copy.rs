//! A copy answers as the table it is of, whatever keeps either; what ends it early is made good by
//! repeating it; and what happens to the source meanwhile makes no copy wrong.

use crate::common::{
    Batches, Row, ask, create, erase, files, load, name, questions, rows_of_all_kinds, upsert,
};
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, Period, TableOptions, Target, Window};
use idmatch_store::{
    Call, Copied, CopyOptions, ErrorKind, OpenTables, Progress, Result, SCAN_RANGES, Store, Table,
    copy_table, now,
};
use idmatch_testkit::MemoryStore;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const ALL: &[Window] = &[Window::ALL];

fn copy(table: &Table, to: &Arc<dyn Store>) -> Result<Copied> {
    copy_table(table, to, &name("copied"), CopyOptions::default(), &Call::default())
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// Both answer every question about some rows alike.
fn assert_alike(a: &Table, b: &Table, rows: &[Row]) {
    for question in questions(rows, ALL) {
        assert_eq!(ask(a, &question).unwrap(), ask(b, &question).unwrap(), "{question:?}");
    }
    assert_eq!(b.verify().unwrap(), []);
}

/// Rows in segments that lie on one another and in the memtable, some of them erased.
fn fill(table: &Table, rows: &[Row]) {
    let (first, rest) = rows.split_at(rows.len() / 2);
    load(table, &mut Batches::of_rows(first, 100)).unwrap();
    load(table, &mut Batches::of_rows(&rows[rows.len() / 4..], 100)).unwrap();
    let targets = [
        Target::Id(rows[3].0.clone()),
        Target::PartnerId(rows[4].1.clone()),
        Target::Pair { id: rows[5].0.clone(), partner_id: rows[5].1.clone() },
    ];
    erase(table, &targets, rows[5].2 + 1_000).unwrap();
    upsert(table, &mut Batches::of_rows(rest, 100)).unwrap();
}

fn open(root: &Path, folder: &str) -> Arc<dyn Store> {
    Arc::new(EngineStore::open(&root.join(folder)).unwrap())
}

#[test]
fn a_copy_answers_as_its_source_whatever_keeps_them() {
    let rows = rows_of_all_kinds(300);
    for keep in [Keep::Last, Keep::All] {
        let root = tempfile::tempdir().unwrap();
        let ways = [
            (open(root.path(), "a"), open(root.path(), "b")),
            (open(root.path(), "c"), memory()),
            (memory(), open(root.path(), "d")),
        ];
        for (from, to) in ways {
            let source = create(&from, "source", keep).unwrap();
            fill(&source, &rows);
            let copied = copy(&source, &to).unwrap();
            assert_eq!(copied.source, copied.destination);
            assert_eq!((copied.sent, copied.erasures), (copied.source.rows, 3));
            let target = to.table(&name("copied")).unwrap();
            assert_eq!(target.options().unwrap(), source.options().unwrap());
            assert_alike(&source, &target, &rows);
            // What was erased and arrives late stays hidden in both.
            load(&source, &mut Batches::of_rows(&rows, 100)).unwrap();
            load(&target, &mut Batches::of_rows(&rows, 100)).unwrap();
            assert_alike(&source, &target, &rows);
            let again = copy(&source, &to).unwrap();
            assert_eq!((again.sent, again.source), (0, again.destination));
        }
    }
}

/// Ids whose rows are spread over all scan ranges.
fn many(count: usize) -> Vec<Row> {
    (0..count).map(|n| (format!("id-{n}"), format!("{}", n % 1_000), n as i64)).collect()
}

#[test]
fn a_copy_that_ended_early_goes_on_where_it_was() {
    const ROWS: u64 = 400_000;
    let root = tempfile::tempdir().unwrap();
    let (from, to) = (open(root.path(), "from"), open(root.path(), "to"));
    let source = create(&from, "source", Keep::Last).unwrap();
    load(&source, &mut Batches::of_rows(&many(ROWS as usize), 50_000)).unwrap();
    let options = CopyOptions { batch_rows: ROWS / 10, ..CopyOptions::default() };
    let (read, destination) = (AtomicU64::new(0), to.clone());
    let cancelled = Arc::new(AtomicBool::new(false));
    let cancel = cancelled.clone();
    let interrupted = move |progress: Progress| {
        if progress.stage == "copy" && read.fetch_add(progress.done, Relaxed) > ROWS * 3 / 4 {
            // What was read is enough for some batches: the first of them comes.
            let copied = || destination.table(&name("copied")).unwrap();
            while copied().stats().unwrap().rows == 0 {
                std::thread::yield_now();
            }
            cancel.store(true, Relaxed);
        }
    };
    let to_copy = |call| copy_table(&source, &to, &name("copied"), options, &call);
    let call = Call::default().cancelled_by(&cancelled).reporting(Arc::new(interrupted));
    let error = to_copy(call).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let there = to.table(&name("copied")).unwrap().stats().unwrap().rows;
    assert!(there > 0 && there < ROWS, "{there} rows are there");

    let copied = to_copy(Call::default()).unwrap();
    assert_eq!((copied.source.rows, copied.destination), (ROWS, copied.source));
    // Beside those that were not sent, a few scan ranges at the ends of what each thread had sent.
    let missing = ROWS - there;
    assert!(copied.sent >= missing, "{} of {missing} missing rows were sent", copied.sent);
    assert!(copied.sent < missing + ROWS / 4, "{} were sent for {missing} missing", copied.sent);
    assert_eq!(to_copy(Call::default()).unwrap().sent, 0);
}

#[test]
fn what_is_written_and_erased_meanwhile_makes_no_copy_wrong() {
    let root = tempfile::tempdir().unwrap();
    let (from, to) = (open(root.path(), "from"), open(root.path(), "to"));
    let source = create(&from, "source", Keep::Last).unwrap();
    let rows = many(1_000);
    load(&source, &mut Batches::of_rows(&rows, 100)).unwrap();
    let late: Row = ("late".into(), "7".into(), 1);
    let was_told = AtomicU64::new(0);
    let (written, written_late) = (source.clone(), late.clone());
    let meanwhile = move |progress: Progress| {
        if progress.stage == "copy" && was_told.fetch_add(1, Relaxed) == 0 {
            let late = std::slice::from_ref(&written_late);
            upsert(&written, &mut Batches::of_rows(late, 1)).unwrap();
            erase(&written, &[Target::Id("id-5".into())], 1_000_000).unwrap();
        }
    };
    let (options, call) = (CopyOptions::default(), Call::default().reporting(Arc::new(meanwhile)));
    let copied = copy_table(&source, &to, &name("copied"), options, &call).unwrap();
    assert_eq!((copied.sent, copied.source.rows, copied.erasures), (1_000, 999, 1));
    assert_eq!(copied.source, copied.destination);
    let target = to.table(&name("copied")).unwrap();
    assert_eq!(target.last_seen("late", "7").unwrap(), None);
    load(&target, &mut Batches::of_rows(&rows, 100)).unwrap();
    assert_eq!(target.last_seen("id-5", "5").unwrap(), None);
    copy(&source, &to).unwrap();
    assert_alike(&source, &target, &[rows, vec![late]].concat());
}

#[test]
fn erasures_that_are_taken_over_hide_what_was_there_before() {
    let root = tempfile::tempdir().unwrap();
    let (from, to) = (open(root.path(), "from"), open(root.path(), "to"));
    let source = create(&from, "source", Keep::All).unwrap();
    let rows = rows_of_all_kinds(100);
    load(&source, &mut Batches::of_rows(&rows, 100)).unwrap();
    copy(&source, &to).unwrap();
    let at = rows.iter().map(|row| row.2).max().unwrap();
    erase(&source, &[Target::Id(rows[0].0.clone())], at).unwrap();
    assert_eq!(copy(&source, &to).unwrap().sent, 0);
    let target = to.table(&name("copied")).unwrap();
    assert_alike(&source, &target, &rows);
    target.compact().unwrap();
    drop((target, to));
    let again = open(root.path(), "to").table(&name("copied")).unwrap();
    assert_alike(&source, &again, &rows);
    assert_eq!(again.erasures().unwrap(), source.erasures().unwrap());
}

#[test]
fn a_retention_leaves_the_same_in_both() {
    let root = tempfile::tempdir().unwrap();
    let (from, to) = (open(root.path(), "from"), open(root.path(), "to"));
    let retention = Some(Period::parse("10d").unwrap());
    let options = TableOptions { keep: Keep::Last, retention };
    let source = from.table_with(&name("source"), &options).unwrap();
    let day = 86_400_000;
    let rows: Vec<Row> =
        (0..20).map(|n| (format!("{n}"), "p".into(), now().millis_i64() - n * day - 1)).collect();
    load(&source, &mut Batches::of_rows(&rows, 100)).unwrap();
    let copied = copy(&source, &to).unwrap();
    // The oldest that is seen is nine days old: more than a hundredth of ten days is left.
    assert_eq!((copied.sent, copied.source.rows, copied.destination.rows), (10, 10, 10));
    let target = to.table(&name("copied")).unwrap();
    assert_alike(&source, &target, &rows);
    target.set_retention(None).unwrap();
    assert_eq!(copy(&source, &to).unwrap_err().kind(), ErrorKind::TableExists);
}

#[test]
fn what_is_copied_of_damaged_files_is_what_was_written() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), "store");
    let table = create(&store, "t", Keep::Last).unwrap();
    load(&table, &mut Batches::of_rows(&rows_of_all_kinds(200), 100)).unwrap();
    let whole = copy(&table, &memory()).unwrap();
    drop((table, store));
    let segments = || files(&root.path().join("store")).into_iter().filter(|file| is_segment(file));
    let mut refused = 0;
    for file in segments() {
        let bytes = std::fs::read(&file).unwrap();
        for at in (0..bytes.len()).step_by(23) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(&file, damaged).unwrap();
            let copied = EngineStore::open(&root.path().join("store"))
                .and_then(|store| copy(&store.table(&name("t"))?, &memory()));
            match copied {
                Ok(copied) => assert_eq!(copied, whole, "{file:?}, byte {at}"),
                Err(_) => refused += 1,
            }
        }
        std::fs::write(&file, bytes).unwrap();
    }
    assert!(refused > 100, "{refused} damages were noticed");
}

fn is_segment(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "seg")
}

#[test]
fn parts_divide_ids_evenly() {
    let root = tempfile::tempdir().unwrap();
    let table = create(&open(root.path(), "store"), "t", Keep::Last).unwrap();
    let snapshot = table.snapshot().unwrap();
    let mut counts = vec![0; SCAN_RANGES];
    (0..SCAN_RANGES * 32).for_each(|n| counts[snapshot.scan_range_of(&format!("id-{n}"))] += 1);
    // 32 on average: by Poisson, none below 4 or above 80 in 10 billion.
    assert!(counts.iter().all(|count| (4..80).contains(count)));
}
