//! What versions of a store share in memory: a publication and a refresh touch the tables that changed.

use crate::common::{Batches, create, erase, load, name, open_apart, upsert};
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, Period, Target};
use idmatch_store::{Call, NewWrite, Store, Table, WriteKind};
use std::sync::Arc;

const TABLES: usize = 50;
const EMPTY: usize = TABLES - 1;

fn row(id: &str) -> Batches {
    Batches::of_rows(&[(id.to_owned(), "p".to_owned(), 1)], 1)
}

/// Makes the tables of a store, with one upserted row each but for the last, which is empty.
fn tables(store: &EngineStore) -> Vec<Table> {
    let create = |table| create(store, &format!("t{table}"), Keep::Last).unwrap();
    let tables: Vec<Table> = (0..TABLES).map(create).collect();
    tables[..EMPTY].iter().for_each(|table| upsert(table, &mut row("first")).unwrap());
    tables
}

/// Makes segments of all rows of the journal. There is nothing to compact.
fn flush(tables: &[Table]) {
    tables[EMPTY].compact().unwrap();
}

fn erase_id(table: &Table, id: &str) {
    assert_eq!(erase(table, &[Target::Id(id.to_owned())], 9).unwrap().by_id, 1);
}

#[test]
fn a_publication_shares_the_state_of_the_tables_that_it_does_not_change() {
    let dir = tempfile::tempdir().unwrap();
    let (store, call) = (EngineStore::open(dir.path()).unwrap(), Call::default());
    let tables = tables(&store);
    let (table, id) = (&tables[7], tables[7].snapshot().unwrap().id());
    // The first erasure of a store makes its key, which all tables get.
    erase_id(table, "first");
    flush(&tables);
    let begin = |kind| table.begin(NewWrite { kind, ..NewWrite::load(table.snapshot()?.id()) });
    let changes: [(&str, &dyn Fn()); 9] = [
        ("an upsert", &|| upsert(table, &mut row("second")).unwrap()),
        ("a flush", &|| flush(&tables)),
        ("a load", &|| load(table, &mut row("third")).unwrap()),
        ("an erasure", &|| erase_id(table, "second")),
        ("a load and a compaction", &|| {
            load(table, &mut row("fourth")).unwrap();
            table.compact().unwrap();
        }),
        ("a retention", &|| table.set_retention(Period::parse("90d").ok()).unwrap()),
        ("a replace", &|| drop(begin(WriteKind::Replace).unwrap())),
        ("another name", &|| store.rename_table(&name("t7"), &name("t77"), &call).unwrap()),
        ("a drop", &|| store.drop_table(&name("t77"), &call).unwrap()),
    ];
    let mut before = store.table_states();
    assert_eq!(before.len(), TABLES);
    for (what, change) in changes {
        change();
        let after = store.table_states();
        let is_same = |id| match (before.get(id), after.get(id)) {
            (Some(before), Some(after)) => Arc::ptr_eq(before, after),
            _ => false,
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
    let tables = tables(&store);
    flush(&tables);
    store.end_writing().unwrap();
    let reader = open_apart(dir.path());
    let before = reader.table_states();
    load(&tables[7], &mut row("second")).unwrap();
    reader.refresh(&Call::default()).unwrap();
    let after = reader.table_states();
    let changed: Vec<_> =
        after.iter().filter(|(id, state)| !Arc::ptr_eq(&before[*id], state)).collect();
    assert_eq!((after.len(), changed.len()), (TABLES, 1));
    assert_eq!(*changed[0].0, tables[7].snapshot().unwrap().id());
}
