//! What a copy does and refuses, between stores in memory: what it counts is worked out here.

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray};
use idmatch_model::{ErasureKey, Keep, Period, SeenAt, TableName, TableOptions, Target};
use idmatch_store::{
    Admin, BatchSource, Call, Copied, CopyOptions, ErrorKind, Ingest, NoRejects, OpenTables,
    Progress, Result, SourceBatch, Store, Sum, Table, Unit, copy_table, now,
};
use idmatch_testkit::MemoryStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use xxhash_rust::xxh3::xxh3_128;

type Row = (&'static str, &'static str, i64);

const ROWS: &[Row] = &[("a", "x", 1), ("a", "y", 2), ("é", "x", 3), ("ab", "c", 4), ("a", "bc", 4)];

struct Batches(Option<RecordBatch>);

impl BatchSource for Batches {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let batch = self.0.take();
        Ok(batch.map(|batch| SourceBatch { source: "test".into(), first_row: 1, batch }))
    }
}

fn load(table: &Table, rows: &[Row]) {
    let ids = StringArray::from_iter_values(rows.iter().map(|row| row.0));
    let partner_ids = StringArray::from_iter_values(rows.iter().map(|row| row.1));
    let dates = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.2));
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(ids)),
        ("partner_id", Arc::new(partner_ids)),
        ("seen_at", Arc::new(dates)),
    ];
    let mut batches = Batches(Some(RecordBatch::try_from_iter(columns).unwrap()));
    table.load(&Ingest::new(true, now(), &mut NoRejects).judged(&mut batches)).unwrap();
}

fn erase(table: &Table, id: &str, at: i64) {
    let at = SeenAt::from_millis(at).unwrap();
    table.erase(&[Target::Id(id.to_owned())], at).unwrap();
}

fn name(text: &str) -> TableName {
    text.parse().unwrap()
}

fn table(store: &MemoryStore, keep: Keep, rows: &[Row]) -> Table {
    let table = store.table_with(&name("t"), &TableOptions { keep, retention: None }).unwrap();
    load(&table, rows);
    table
}

fn copy(source: &Table, to: &MemoryStore, options: CopyOptions) -> Result<Copied> {
    copy_to(source, to, "t", options, &Call::default())
}

fn copy_to(
    source: &Table,
    to: &MemoryStore,
    to_name: &str,
    options: CopyOptions,
    call: &Call,
) -> Result<Copied> {
    let to: Arc<dyn Store> = Arc::new(to.clone());
    copy_table(source, &to, &name(to_name), options, call)
}

const PLAIN: CopyOptions = CopyOptions { batch_rows: 1, merge: false, accept_lost_erasures: false };
const MERGE: CopyOptions = CopyOptions { merge: true, ..PLAIN };

/// The sum of the hashes of some rows, as its documentation has it.
fn sum_of(rows: &[Row]) -> Sum {
    let hash = |row: &Row| {
        let length = (row.0.len() as u16).to_le_bytes();
        let parts =
            [&length[..], row.0.as_bytes(), row.1.as_bytes(), &(row.2 as u64).to_le_bytes()];
        xxh3_128(&parts.concat())
    };
    let hash = rows.iter().map(hash).fold(0, u128::wrapping_add);
    Sum { rows: rows.len() as u64, hash }
}

#[test]
fn every_row_is_copied_once_and_compared() {
    for keep in [Keep::Last, Keep::All] {
        let (from, to) = (MemoryStore::new(), MemoryStore::new());
        let source = table(&from, keep, ROWS);
        load(&source, &[("a", "x", 9)]);
        let mut rows = ROWS.to_vec();
        rows.push(("a", "x", 9));
        if keep == Keep::Last {
            rows.remove(0);
        }
        let told = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let sums = told.clone();
        let call = Call::default().reporting(Arc::new(move |progress: Progress| {
            assert_eq!(progress.unit, Unit::Rows);
            let stages = ["compare", "copy"];
            match stages.iter().position(|stage| *stage == progress.stage) {
                Some(stage) => drop(sums[stage].fetch_add(progress.done, Relaxed)),
                // That of the loads which the copy does.
                None => assert_eq!(progress.stage, "load"),
            }
        }));
        let copied = copy_to(&source, &to, "t", PLAIN, &call).unwrap();
        let (sum, sent) = (sum_of(&rows), rows.len() as u64);
        let expected = Copied { source: sum, destination: sum, sent, ..Copied::default() };
        assert_eq!(copied, expected);
        assert_eq!([told[0].load(Relaxed), told[1].load(Relaxed)], [sent, sent]);
        assert_eq!(copy(&source, &to, PLAIN).unwrap(), Copied { sent: 0, ..expected });
    }
}

#[test]
fn a_table_without_rows_is_copied_with_its_options() {
    let (from, to) = (MemoryStore::new(), MemoryStore::new());
    let options = TableOptions { keep: Keep::All, retention: Some(Period::parse("13mo").unwrap()) };
    let source = from.table_with(&name("t"), &options).unwrap();
    assert_eq!(copy(&source, &to, PLAIN).unwrap(), Copied::default());
    assert_eq!(to.table(&name("t")).unwrap().options().unwrap(), options);
}

#[test]
fn only_parts_that_differ_are_sent() {
    let (from, to) = (MemoryStore::new(), MemoryStore::new());
    let source = table(&from, Keep::Last, ROWS);
    copy(&source, &to, PLAIN).unwrap();
    load(&source, &[("é", "x", 5)]);
    let copied = copy(&source, &to, PLAIN).unwrap();
    assert_eq!((copied.sent, copied.destination), (1, copied.source));
}

#[test]
fn rows_that_the_source_lacks_are_said_and_stay() {
    let (from, to) = (MemoryStore::new(), MemoryStore::new());
    let source = table(&from, Keep::Last, ROWS);
    table(&to, Keep::Last, &[("a", "own", 7)]);
    let refused = copy(&source, &to, PLAIN).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Differs);
    assert!(refused.to_string().contains("has rows or newer dates of its own"), "{refused}");
    let merged = copy(&source, &to, MERGE).unwrap();
    let all = [ROWS, &[("a", "own", 7)]].concat();
    assert_eq!((merged.source, merged.destination), (sum_of(ROWS), sum_of(&all)));

    // Of one pair the newer date stays, so that it cannot be a copy.
    let to = MemoryStore::new();
    let newer = table(&to, Keep::Last, &[("a", "x", 8)]);
    let refused = copy(&source, &to, PLAIN).unwrap_err();
    assert!(refused.to_string().contains("has 5 rows"), "{refused}");
    assert_eq!(newer.last_seen("a", "x").unwrap().map(SeenAt::millis), Some(8));
    copy(&source, &to, MERGE).unwrap();
    assert_eq!(newer.stats().unwrap().rows, 5);

    // What was erased there stays hidden there, and is missing.
    erase(&newer, "é", 100);
    let missing = copy(&source, &to, MERGE).unwrap_err();
    assert!(missing.to_string().contains("rows are missing"), "{missing}");
}

#[test]
fn what_hides_late_rows_goes_with_them() {
    let (from, to) = (MemoryStore::new(), MemoryStore::new());
    let source = table(&from, Keep::All, ROWS);
    erase(&source, "a", 3);
    let copied = copy(&source, &to, PLAIN).unwrap();
    let left = [("é", "x", 3), ("ab", "c", 4), ("a", "bc", 4)];
    assert_eq!((copied.destination, copied.erasures), (sum_of(&left), 1));
    let target = to.table(&name("t")).unwrap();
    load(&target, &[("a", "x", 3), ("a", "z", 4)]);
    assert_eq!(target.last_seen("a", "x").unwrap(), None);
    assert_eq!(target.last_seen("a", "z").unwrap().map(SeenAt::millis), Some(4));
}

#[test]
fn erasures_that_cannot_be_taken_over_are_an_error_unless_that_is_accepted() {
    let (from, to) = (MemoryStore::new(), MemoryStore::new());
    to.adopt_erasure_key(ErasureKey::new([1; 16]), &Call::default()).unwrap();
    let source = table(&from, Keep::Last, ROWS);
    assert_eq!(copy(&source, &to, PLAIN).unwrap().erasures, 0);
    erase(&source, "a", 100);
    let refused = copy(&source, &to, PLAIN).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Differs);
    assert!(refused.to_string().contains("has 1 erasures"), "{refused}");
    let to = MemoryStore::new();
    to.adopt_erasure_key(ErasureKey::new([1; 16]), &Call::default()).unwrap();
    assert_eq!(copy(&source, &to, PLAIN).unwrap_err().kind(), ErrorKind::Differs);
    assert_eq!(to.tables().unwrap(), []);
    let accepted = CopyOptions { accept_lost_erasures: true, ..PLAIN };
    let copied = copy(&source, &to, accepted).unwrap();
    assert_eq!((copied.source.rows, copied.erasures, copied.lost_erasures), (2, 0, 1));
}

#[test]
fn a_destination_with_other_options_is_an_error() {
    let (from, to) = (MemoryStore::new(), MemoryStore::new());
    let source = table(&from, Keep::Last, ROWS);
    table(&to, Keep::All, &[]);
    let refused = copy(&source, &to, MERGE).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TableExists);
    assert!(refused.to_string().contains("keep all and retention none"), "{refused}");
    let other = copy_to(&source, &to, "other", PLAIN, &Call::default()).unwrap();
    assert_eq!(other.destination, sum_of(ROWS));
}
