//! What versions of a store share in memory, and how long the files of a table stay.

use crate::common::{
    Batches, assert_nothing_leaked, create, erase, listed, load, name, open_apart, table_file,
    upsert,
};
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, Period, Target};
use idmatch_store::{Call, NewWrite, Store, Table, WriteKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

const TABLES: usize = 50;

fn row(id: &str) -> Batches {
    Batches::of_rows(&[(id.to_owned(), "p".to_owned(), 1)], 1)
}

fn number(table: usize) -> String {
    format!("t{table}")
}

/// Makes the tables of a store, with one upserted row each.
fn tables(store: &EngineStore) -> Vec<Table> {
    let create = |table| create(store, &number(table), Keep::Last).unwrap();
    let tables: Vec<Table> = (0..TABLES).map(create).collect();
    tables.iter().for_each(|table| upsert(table, &mut row("first")).unwrap());
    tables
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
    table.compact().unwrap();
    let begin = |kind| table.begin(NewWrite { kind, ..NewWrite::load(table.snapshot()?.id()) });
    let changes: [(&str, &dyn Fn()); 9] = [
        ("an upsert", &|| upsert(table, &mut row("second")).unwrap()),
        ("a flush and a compaction", &|| table.compact().unwrap()),
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
    // All rows of the journal become segments.
    tables[7].compact().unwrap();
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

/// The segment files of a table.
fn segments(root: &Path, table: &str) -> BTreeSet<String> {
    let (_, json) = table_file(root, table);
    let segments = json["segments"].as_array().unwrap().iter();
    segments.map(|segment| segment["file"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn files_stay_when_tables_change_names_and_go_when_no_table_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let (root, call) = (dir.path(), Call::default());
    let store = EngineStore::open(root).unwrap();
    let [a, b] = ["a", "b"].map(|table| create(&store, table, Keep::Last).unwrap());
    for table in [&a, &b] {
        load(table, &mut row("loaded")).unwrap();
        erase_id(table, "loaded");
    }
    let found: BTreeMap<&str, _> = ["a", "b"].map(|table| (table, segments(root, table))).into();
    let [first, second] = [&found["a"], &found["b"]];
    assert!(!first.is_empty() && first.is_disjoint(second));

    store.rename_table(&name("a"), &name("c"), &call).unwrap();
    assert_eq!(segments(root, "c"), *first);
    assert_nothing_leaked(root);
    store.swap_tables(&name("b"), &name("c"), &call).unwrap();
    assert_eq!((segments(root, "b"), segments(root, "c")), (first.clone(), second.clone()));
    assert_nothing_leaked(root);

    // No row of the journal needs the files.
    store.drop_table(&name("b"), &call).unwrap();
    assert_nothing_leaked(root);
    assert!(listed(&root.join("segments")).is_disjoint(first));
    assert_eq!(segments(root, "c"), *second);
}
