//! Scans: each row once, also where ranges of a table are read apart; and a range reads only its share.

use crate::common::{Rows, erase, fresh, load, open, open_with, rows_of, upsert};
use idmatch_model::{Keep, SeenAt, TableOptions, Target, Window};
use idmatch_store::{Call, OpenTables, ScanRanges, ScanSplit, Store, Table};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const THEN: i64 = 1_750_000_000_000;
const ROWS: usize = 3_000;

/// Two partner_ids of each of many ids, and one id with very many.
fn rows(crowd: usize) -> Rows {
    let row = |n: usize| (format!("id{}", n / 2), format!("p{n}"), THEN + n as i64);
    let crowd = (0..crowd).map(|n| ("crowd".to_owned(), format!("p{n}"), THEN + n as i64));
    (0..ROWS).map(row).chain(crowd).collect()
}

/// The rows of each split, as another client reads them that got the splits as texts.
fn rows_of_splits(table: &Table, keyspace: &str, count: usize, call: &Call) -> Vec<Rows> {
    let here = table.snapshot().unwrap();
    let other = open(keyspace);
    let splits = here.splits(count).into_iter().map(|split| split.to_string());
    let read = |text: String| {
        let split: ScanSplit = text.parse().unwrap();
        let snapshot = other.snapshot(call).unwrap();
        let there = snapshot.table(split.table, call).unwrap();
        let rows = rows_of(|sink| there.scan_split(&split, Window::ALL.into(), sink, call));
        assert!(
            rows.iter().all(|row| split.ranges.contains(&here.scan_range_of(&row.0))),
            "{text}"
        );
        rows
    };
    splits.map(read).collect()
}

#[test]
fn splits_are_the_table_and_read_no_row_twice() {
    let _beside = fresh("ranges");
    let table = open("ranges").table_with(&"t".parse().unwrap(), &TableOptions::default()).unwrap();
    load(&table, &rows(0));
    let mut all = rows(0);
    all.sort_unstable();
    let read = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&read);
    let call = Call::default().reporting(Arc::new(move |progress| {
        assert_eq!(progress.stage, "scan");
        counted.fetch_add(progress.done, Relaxed);
    }));
    for count in [1, 7, 64] {
        let ranges = rows_of_splits(&table, "ranges", count, &call);
        assert_eq!(ranges.len(), count);
        let mut together: Rows = ranges.concat();
        together.sort_unstable();
        assert!(together == all, "{count}: {} rows", together.len());
        // Rows that the servers sent, wanted or not.
        assert_eq!(read.swap(0, Relaxed), ROWS as u64, "{count}");
    }
    let snapshot = table.snapshot().unwrap();
    let none = ScanRanges::of(|_| false);
    assert_eq!(rows_of(|sink| snapshot.scan(&none, Window::ALL.into(), sink, &call)), []);
    assert_eq!(read.load(Relaxed), 0);
}

#[test]
fn ranges_have_hot_keys_once() {
    for keep in [Keep::Last, Keep::All] {
        let keyspace = format!("ranges_hot_{keep:?}").to_lowercase();
        let beside = fresh(&keyspace);
        let store = open_with(&keyspace, "&hot_key_rows=100");
        let options = TableOptions { keep, retention: None };
        let table = store.table_with(&"t".parse().unwrap(), &options).unwrap();
        load(&table, &rows(2_000));
        assert_eq!(beside.hot_rows(&keyspace), 2_000);
        let mut together: Rows = rows_of_splits(&table, &keyspace, 7, &Call::default()).concat();
        let mut all = rows(2_000);
        together.sort_unstable();
        all.sort_unstable();
        assert!(together == all, "{keep:?}: {} rows", together.len());
        let [since, until] = [500, 1_500].map(|n| SeenAt::from_millis(THEN + n).unwrap());
        let window = Window::new(Some(since), Some(until)).unwrap();
        let snapshot = table.snapshot().unwrap();
        let mut found = rows_of(|sink| {
            snapshot.scan(&ScanRanges::all(), window.into(), sink, &Call::default())
        });
        all.retain(|row| (THEN + 500..THEN + 1_500).contains(&row.2));
        found.sort_unstable();
        assert!(found == all, "{keep:?}: {} rows of {}", found.len(), all.len());
        let noted = || beside.count(&format!("{keyspace}.idmatch_hot_keys"));
        assert_eq!(noted(), 1);
        // An erasure leaves no identifier behind; what is seen later is found again.
        erase(&table, &[Target::Id("crowd".to_owned())], THEN + 1_999);
        assert_eq!((noted(), beside.hot_rows(&keyspace)), (0, 0));
        upsert(&table, &[("crowd".to_owned(), "later".to_owned(), THEN + 2_000)]);
        assert_eq!((noted(), beside.hot_rows(&keyspace)), (1, 1));
        let scanned = rows_of_splits(&table, &keyspace, 7, &Call::default()).concat();
        assert_eq!(scanned.iter().filter(|row| row.0 == "crowd").count(), 1);
    }
}
