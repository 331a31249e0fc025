//! A publication touches the tables that it changes; all others are shared with the version before, in memory.

use super::{EngineStore, MemoryLimits, OsDisk, Owners};
use crate::versions::TableVersion;
use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray};
use idmatch_model::{Period, SeenAt, TableName, TableOptions, Target};
use idmatch_store::{
    BatchSource, Call, Ingest, NewWrite, NoRejects, OpenTables, Result, SourceBatch, Store, Table,
    WriteKind, now,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const TABLES: usize = 50;

/// One row.
struct OneRow(Option<RecordBatch>);

impl OneRow {
    fn new(id: &str) -> OneRow {
        let date = TimestampMillisecondArray::from(vec![1]).with_timezone("UTC");
        let batch = RecordBatch::try_from_iter([
            ("id", Arc::new(StringArray::from(vec![id])) as ArrayRef),
            ("partner_id", Arc::new(StringArray::from(vec!["p"])) as ArrayRef),
            ("seen_at", Arc::new(date) as ArrayRef),
        ]);
        OneRow(Some(batch.unwrap()))
    }
}

impl BatchSource for OneRow {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let batch = |batch| SourceBatch { source: "test".into(), first_row: 1, batch };
        Ok(self.0.take().map(batch))
    }
}

fn upsert(table: &Table, id: &str) {
    let (mut row, mut rejects) = (OneRow::new(id), NoRejects);
    table.upsert(&Ingest::new(true, now(), &mut rejects).judged(&mut row), None).unwrap();
}

fn load(table: &Table, id: &str) {
    let (mut row, mut rejects) = (OneRow::new(id), NoRejects);
    table.load(&Ingest::new(true, now(), &mut rejects).judged(&mut row)).unwrap();
}

fn erase(table: &Table, id: &str) {
    let erased = table.erase(&[Target::Id(id.to_owned())], SeenAt::from_millis(9).unwrap());
    assert_eq!(erased.unwrap().by_id, 1);
}

/// The state of each table in the current version, by the table's identity.
fn states(store: &EngineStore) -> BTreeMap<u128, Arc<TableVersion>> {
    let version = store.owners.versions.current();
    let tables = version.tables.iter();
    tables.map(|(id, table)| (u128::from_be_bytes(id.0), table.clone())).collect()
}

fn name(number: usize) -> TableName {
    format!("t{number}").parse().unwrap()
}

#[test]
fn a_publication_shares_the_state_of_the_tables_that_it_does_not_change() {
    let dir = tempfile::tempdir().unwrap();
    let (store, call) = (EngineStore::open(dir.path()).unwrap(), Call::default());
    let create = |number| store.table_with(&name(number), &TableOptions::default()).unwrap();
    let tables: Vec<Table> = (0..TABLES).map(create).collect();
    tables.iter().for_each(|table| upsert(table, "first"));
    let (table, id) = (&tables[7], tables[7].snapshot().unwrap().id().0);
    // The first erasure of a store makes its key, which all tables get.
    erase(table, "first");
    store.owners.writes.flush_all(&Call::default()).unwrap();
    let begin = |kind| table.begin(NewWrite { kind, ..NewWrite::load(table.snapshot()?.id()) });
    let changes: [(&str, &dyn Fn()); 9] = [
        ("an upsert", &|| upsert(table, "second")),
        ("a flush", &|| store.owners.writes.flush_all(&Call::default()).unwrap()),
        ("a load", &|| load(table, "third")),
        ("an erasure", &|| erase(table, "second")),
        ("a load and a compaction", &|| {
            load(table, "fourth");
            table.compact().unwrap();
        }),
        ("a retention", &|| table.set_retention(Period::parse("90d").ok()).unwrap()),
        ("a replace", &|| drop(begin(WriteKind::Replace).unwrap())),
        ("another name", &|| store.rename_table(&name(7), &name(77), &call).unwrap()),
        ("a drop", &|| store.drop_table(&name(77), &call).unwrap()),
    ];
    let mut before = states(&store);
    assert_eq!(before.len(), TABLES);
    for (what, change) in changes {
        change();
        let after = states(&store);
        let is_same = |id: &u128| {
            let both = before.get(id).zip(after.get(id));
            both.is_some_and(|(before, after)| Arc::ptr_eq(before, after))
        };
        assert!(!is_same(&id), "{what} leaves the table as it was");
        let shared = after.keys().filter(|id| is_same(id)).count();
        assert_eq!(shared, TABLES - 1, "{what}: the others are shared");
        before = after;
    }
}

/// A reader in another process takes over what was published: it opens what changed, and shares the rest.
#[test]
fn a_refresh_shares_the_state_of_the_tables_that_did_not_change() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let create = |number| store.table_with(&name(number), &TableOptions::default()).unwrap();
    let tables: Vec<Table> = (0..TABLES).map(create).collect();
    tables.iter().for_each(|table| upsert(table, "first"));
    store.owners.writes.flush_all(&Call::default()).unwrap();
    store.end_writing().unwrap();
    let limits = MemoryLimits::default();
    let reader = Owners::open(Arc::new(OsDisk), dir.path(), limits).unwrap();
    let states = || reader.versions.current().tables.clone();
    let before = states();
    load(&tables[7], "second");
    reader.lock.refresh().unwrap();
    let after = states();
    let changed: Vec<&str> = after
        .iter()
        .filter(|(id, table)| !Arc::ptr_eq(&before[*id], table))
        .map(|(_, table)| table.name().as_str())
        .collect();
    assert_eq!((after.len(), changed), (TABLES, vec!["t7"]));
}
