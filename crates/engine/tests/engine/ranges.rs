//! Reading shares of a table, and many keys at once.

use crate::common::{
    Batches, Row, create, erase, load, looked_up, name, rows_of, rows_of_all_kinds, scanned, upsert,
};
use arrow_array::RecordBatch;
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, SeenAt, Side, Target, Window};
use idmatch_store::locks::Mutex;
use idmatch_store::{
    Call, ErrorKind, Lookup, OpenTables, SCAN_RANGES, ScanRanges, ScanSplit, Table, TableSnapshot,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 150,
    chunk_bytes: 2_000,
    run_bytes: 4 << 20,
    population_bytes: 2_000,
    memtable_bytes: 1 << 20,
};

/// A table with several segments, a memtable and erased rows.
fn filled(root: &Path) -> (EngineStore, Table) {
    let store = EngineStore::open_with(Arc::new(OsDisk), root, LIMITS).unwrap();
    let table = create(&store, "t", Keep::All).unwrap();
    let rows: Vec<Row> =
        (0..3_000).map(|n| (format!("i{n}"), format!("p{}", n % 7), n as i64)).collect();
    for rows in rows.chunks(1_000) {
        load(&table, &mut Batches::of_rows(rows, 300)).unwrap();
    }
    upsert(&table, &mut Batches::of_rows(&rows_of_all_kinds(400), 100)).unwrap();
    erase(&table, &[Target::Id("i5".to_owned()), Target::PartnerId("p3".to_owned())], 5_000)
        .unwrap();
    (store, table)
}

fn ids_of(rows: &[Row]) -> BTreeSet<String> {
    rows.iter().map(|row| row.0.clone()).collect()
}

/// The rows of a split, sorted.
fn scanned_split(table: &dyn TableSnapshot, split: &ScanSplit, window: Window) -> Vec<Row> {
    let rows = Mutex::new(Vec::new());
    let take = |batch: RecordBatch| {
        rows.lock().extend(rows_of(&batch));
        Ok(())
    };
    table.scan_split(split, window.into(), &take, &Call::default()).unwrap();
    let mut rows = rows.into_inner();
    rows.sort();
    rows
}

#[test]
fn splits_together_are_the_table_and_no_row_is_in_two() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, table) = filled(dir.path());
    let table = table.snapshot().unwrap();
    let window = Window::new(None, SeenAt::from_millis(1_700_000_000_000).ok()).unwrap();
    let all = scanned(&*table, &ScanRanges::all(), Window::ALL);
    // 2,571 of 3,000 numbered ids have another partner_id than "p3"; "i5" is erased.
    assert_eq!(all.iter().filter(|row| row.1.starts_with('p') && row.1.len() == 2).count(), 2_570);
    for (window, rows) in
        [(Window::ALL, &all), (window, &scanned(&*table, &ScanRanges::all(), window))]
    {
        for count in [1, 2, 7, 256, SCAN_RANGES, 2 * SCAN_RANGES] {
            let splits = table.splits(count);
            assert_eq!(splits.len(), count.min(SCAN_RANGES));
            let (mut union, mut ids): (Vec<Row>, BTreeSet<String>) = Default::default();
            let mut next_range = 0;
            for split in &splits {
                assert_eq!(split.ranges.start, next_range, "{count} splits");
                next_range = split.ranges.end;
                // Another worker has it as text.
                let text = split.to_string();
                let read: ScanSplit = text.parse().unwrap();
                assert_eq!(read, *split, "{text}");
                let rows = scanned_split(&*table, &read, window);
                let of_split = ids_of(&rows);
                assert!(ids.is_disjoint(&of_split), "{count} splits: an id is in two of them");
                let is_in = |id: &String| split.ranges.contains(&table.scan_range_of(id));
                assert!(of_split.iter().all(is_in), "{count} splits: an id of another scan range");
                ids.extend(of_split);
                union.extend(rows);
            }
            assert_eq!(next_range, SCAN_RANGES);
            union.sort();
            assert!(union == *rows, "{count} splits: {} of {} rows", union.len(), rows.len());
        }
    }
    assert_eq!(table.splits(0).len(), 1);
}

#[test]
fn a_split_of_another_version_or_table_has_expired() {
    let dir = tempfile::tempdir().unwrap();
    let (store, table) = filled(dir.path());
    let before = table.snapshot().unwrap();
    let splits = before.splits(3);
    let expired = |table: &dyn TableSnapshot| {
        let take = |_| panic!("a batch");
        let outcome = table.scan_split(&splits[1], Window::ALL.into(), &take, &Call::default());
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Expired, "{error}");
        assert!(error.to_string().contains("another version"), "{error}");
    };
    // The same version, taken again, reads it.
    let again = table.snapshot().unwrap();
    assert!(!scanned_split(&*again, &splits[1], Window::ALL).is_empty());
    let other = create(&store, "other", Keep::All).unwrap();
    expired(&*other.snapshot().unwrap());
    upsert(&table, &mut Batches::of_rows(&rows_of_all_kinds(1), 1)).unwrap();
    expired(&*table.snapshot().unwrap());
    let whole = scanned(&*before, &ScanRanges::all(), Window::ALL);
    table.compact().unwrap();
    let mut rows: Vec<Row> =
        splits.iter().flat_map(|split| scanned_split(&*before, split, Window::ALL)).collect();
    rows.sort();
    assert_eq!(rows, whole, "the version that the splits are of still reads them");
    for text in
        ["", "x", &format!("{}:", splits[0]), &splits[0].to_string().replace(":0-555", ":555-0")]
    {
        let error = text.parse::<ScanSplit>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text:?}");
    }
    assert_eq!(store.table(&name("t")).unwrap().verify().unwrap(), []);
}

/// The answers of a key, newest first, worked out from all rows of the table.
fn expected(rows: &[Row], key: &str, lookup: Lookup) -> Vec<Row> {
    let mut newest = BTreeMap::<&str, i64>::new();
    for (id, partner_id, date) in rows {
        let (this, other) = if lookup.by == Side::Id { (id, partner_id) } else { (partner_id, id) };
        if this == key && lookup.window.contains(SeenAt::from_millis(*date).unwrap()) {
            let there = newest.entry(other).or_insert(*date);
            *there = (*there).max(*date);
        }
    }
    let row = |(other, date): (&str, i64)| (key.to_owned(), other.to_owned(), date);
    let mut answers: Vec<Row> = newest.into_iter().map(row).collect();
    answers.sort_by(|a, b| b.2.cmp(&a.2).then(a.1.cmp(&b.1)));
    answers.truncate(lookup.limit);
    answers
}

#[test]
fn many_keys_are_answered_by_position() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, table) = filled(dir.path());
    let table = table.snapshot().unwrap();
    let rows = scanned(&*table, &ScanRanges::all(), Window::ALL);
    let at = |millis| SeenAt::from_millis(millis).unwrap();
    let windows = [Window::ALL, Window::new(Some(at(700)), Some(at(1_700_000_000_000))).unwrap()];
    for by in Side::BOTH {
        let of_row = |row: &Row| if by == Side::Id { row.0.clone() } else { row.1.clone() };
        let mut keys: Vec<String> = rows.iter().step_by(9).map(of_row).collect();
        // Repeats beside and far from each other, and keys that are nowhere.
        keys.splice(3..3, ["nobody".to_owned(), keys[0].clone(), keys[0].clone()]);
        keys.extend(["i5".to_owned(), "p3".to_owned(), keys[1].clone(), "p1".to_owned()]);
        assert!(keys.len() > 300, "more than one step of the lookup");
        for window in windows {
            for limit in [0, 1, 3, usize::MAX] {
                let lookup = Lookup { by, window, limit };
                let expected: Vec<Row> =
                    keys.iter().flat_map(|key| expected(&rows, key, lookup)).collect();
                assert_eq!(looked_up(&*table, &keys, lookup), expected, "{lookup:?}");
            }
        }
        let (call, lookup) = (Call::default(), Lookup::by(by));
        assert_eq!(table.lookup_many(&[], lookup, &call).unwrap().keys(), 0);
        let unknown = table.lookup_many(&["no", "body"], lookup, &call).unwrap();
        assert_eq!(unknown.keys(), 2);
        assert!((0..3).all(|position| unknown.of(position).next().is_none()));
        assert!(unknown.into_columns().1.is_empty());
        for bad in ["", &"x".repeat(1_025)] {
            let error = table.lookup_many(&["i1", bad, "i2"], lookup, &call).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.to_string().contains("identifier"), "{error}");
        }
    }
}
