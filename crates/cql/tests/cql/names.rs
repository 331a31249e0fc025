//! Names of tables: other clients see a change when it returns, and no erasure is missed by one.

use crate::catalog::{PATIENT, lose_one};
use crate::common::{Beside, answers, erase, fresh, load, open, open_with, try_upsert, upsert};
use crate::proxy::Between;
use idmatch_cql::CqlStore;
use idmatch_model::{Side, TableName, TableOptions, Target};
use idmatch_store::{Call, ErrorKind, OpenTables, Store, Table};
use idmatch_testkit::LogCapture;
use scylla_proxy::{Reaction, ResponseReaction};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const THEN: i64 = 1_750_000_000_000;

fn name(text: &str) -> TableName {
    text.parse().unwrap()
}

fn make(store: &CqlStore, text: &str) -> Table {
    store.table_with(&name(text), &TableOptions::default()).unwrap()
}

fn row(id: &str, partner_id: &str) -> (String, String, i64) {
    (id.to_owned(), partner_id.to_owned(), THEN)
}

fn partners(table: &Table, id: &str) -> Vec<String> {
    answers(table, Side::Id, id).unwrap()
}

/// Lets a note of the catalog be two days old.
fn age(beside: &Beside, keyspace: &str, column: &str, id: uuid::Uuid) {
    let cql =
        format!("UPDATE {keyspace}.idmatch_tables SET {column} = 1700000000000 WHERE id = {id}");
    beside.run(&cql);
}

#[test]
fn other_clients_see_a_change_when_it_returns() {
    let _beside = fresh("seen");
    let (first, second) = (open("seen"), open("seen"));
    let call = Call::default();
    upsert(&make(&first, "a"), &[row("i", "a")]);
    upsert(&make(&first, "b"), &[row("i", "b")]);
    let there = |text: &str| second.table(&name(text));
    for swaps in 1..4 {
        first.swap_tables(&name("a"), &name("b"), &call).unwrap();
        let expected = if swaps % 2 == 1 { ["b", "a"] } else { ["a", "b"] };
        assert_eq!(["a", "b"].map(|of| partners(&there(of).unwrap(), "i").concat()), expected);
    }
    first.rename_table(&name("a"), &name("c"), &call).unwrap();
    assert_eq!(there("a").err().unwrap().kind(), ErrorKind::TableNotFound);
    assert_eq!(partners(&there("c").unwrap(), "i"), ["b"]);
    // A caller that has found the table by its former name goes on with it.
    let held = there("c").unwrap();
    first.drop_table(&name("c"), &call).unwrap();
    assert_eq!(try_upsert(&held, &[row("j", "c")]).unwrap_err().kind(), ErrorKind::TableNotFound);
    assert_eq!(there("c").err().unwrap().kind(), ErrorKind::TableNotFound);
    assert_eq!(second.tables().unwrap(), [name("b")]);
}

#[test]
fn erasures_hold_through_swaps_of_another_client() {
    let _beside = fresh("swaps");
    let (here, there) = (open("swaps"), open("swaps"));
    let rows: Vec<_> = (0..200).map(|n| row(&format!("id{n}"), "p")).collect();
    for table in ["a", "b"] {
        load(&make(&here, table), &rows);
    }
    let (is_done, call) = (AtomicBool::new(false), Call::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                there.swap_tables(&name("a"), &name("b"), &call).unwrap();
            }
        });
        let table = here.table(&name("a")).unwrap();
        for (id, ..) in rows.iter().take(40) {
            erase(&table, &[Target::Id(id.clone())], THEN);
            assert_eq!(partners(&table, id), [""; 0]);
        }
        is_done.store(true, Relaxed);
    });
    // Both tables obey what was erased in one before their names were exchanged.
    there.swap_tables(&name("a"), &name("b"), &call).unwrap();
    for table in ["a", "b"].map(|of| there.table(&name(of)).unwrap()) {
        upsert(&table, &rows[..40]);
        assert!(rows.iter().take(40).all(|row| partners(&table, &row.0).is_empty()));
        assert!(rows.iter().skip(40).all(|row| partners(&table, &row.0) == ["p"]));
    }
}

#[test]
fn clients_change_many_names_at_once() {
    let _beside = fresh("many");
    make(&open("many"), "first");
    std::thread::scope(|scope| {
        for n in 0..4 {
            scope.spawn(move || {
                let (store, call) = (open("many"), Call::default());
                let [from, to] = ["from", "to"].map(|text| name(&format!("{text}{n}")));
                upsert(&make(&store, from.as_str()), &[row("i", &format!("p{n}"))]);
                store.rename_table(&from, &to, &call).unwrap();
            });
        }
    });
    let store = open("many");
    let names = ["first", "to0", "to1", "to2", "to3"].map(name);
    assert_eq!(store.tables().unwrap(), names);
    for n in 0..4 {
        let table = store.table(&name(&format!("to{n}"))).unwrap();
        assert_eq!(partners(&table, "i"), [format!("p{n}")]);
    }
}

#[test]
fn a_dropped_table_leaves_the_servers_a_day_later() {
    let beside = fresh("dropped");
    let (store, call) = (open_with("dropped", "&hot_key_rows=100"), Call::default());
    let table = make(&store, "a");
    let crowd: Vec<_> = (0..2_000).map(|n| row("crowd", &format!("p{n}"))).collect();
    load(&table, &crowd);
    assert_eq!(beside.hot_rows("dropped"), 2_000);
    let id = beside.id("dropped", "a");
    make(&store, "stays");
    store.drop_table(&name("a"), &call).unwrap();
    assert_eq!((beside.directions("dropped").len(), beside.hot_rows("dropped")), (4, 2_000));
    age(&beside, "dropped", "dropped_at", id);
    let (stays, log) = (store.table(&name("stays")).unwrap(), LogCapture::new());
    stays.compact().unwrap();
    assert_eq!((beside.directions("dropped").len(), beside.hot_rows("dropped")), (2, 0));
    let told = log.take("dropped table");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("INFO dropped table is removed table_id="), "{told:?}");
    assert!(told[1].starts_with("INFO dropped table was removed table_id="), "{told:?}");
    assert!(told[1].ends_with("hot_keys=1"), "{told:?}");
    assert_eq!(beside.count("dropped.idmatch_hot_keys"), 0);
    // Nothing of it is in the next table of the name.
    let next = make(&store, "a");
    assert_eq!(partners(&next, "crowd"), [""; 0]);
    assert_eq!(next.verify().unwrap(), []);
}

#[test]
fn what_a_maker_has_left_without_a_name_goes() {
    let beside = fresh("orphans");
    let store = open("orphans");
    let table = make(&store, "a");
    let id = beside.id("orphans", "a");
    // As if its maker had ended before it gave the table a name.
    beside.run("DELETE FROM orphans.idmatch_names WHERE part = 'names' AND name = 'a'");
    make(&store, "b");
    let log = LogCapture::new();
    for (column, left) in [("made_at", 4), ("dropped_at", 2)] {
        age(&beside, "orphans", column, id);
        store.table(&name("b")).unwrap().compact().unwrap();
        assert_eq!(beside.directions("orphans").len(), left, "{column}");
    }
    assert_eq!(log.take("INFO table that was never named is marked as dropped").len(), 1);
    assert_eq!(beside.count("orphans.idmatch_tables"), 1);
    assert_eq!(try_upsert(&table, &[row("i", "p")]).unwrap_err().kind(), ErrorKind::TableNotFound);
}

#[test]
fn a_change_whose_client_has_ended_is_forgotten() {
    let beside = fresh("ended");
    let (store, call) = (open("ended"), Call::default());
    upsert(&make(&store, "a"), &[row("i", "p")]);
    let id = beside.id("ended", "a");
    // Announced three minutes ago.
    let micros = (idmatch_store::now().millis_i64() - 180_000) * 1_000;
    beside.run(&format!(
        "UPDATE ended.idmatch_names USING TIMESTAMP {micros} \
         SET announced = {id}, concerned = [{id}] WHERE part = 'names'"
    ));
    store.rename_table(&name("a"), &name("b"), &call).unwrap();
    assert_eq!(partners(&store.table(&name("b")).unwrap(), "i"), ["p"]);
}

#[test]
fn a_change_of_names_whose_answers_are_lost_is_made_once() {
    let mut between = Between::start();
    let _beside = fresh("lost_names");
    let store = between.open("lost_names", PATIENT);
    let call = Call::default();
    for table in ["a", "b"] {
        upsert(&make(&store, table), &[row("i", table)]);
    }
    let steps: [&dyn Fn() -> idmatch_store::Result<()>; 3] = [
        &|| store.swap_tables(&name("a"), &name("b"), &call),
        &|| store.rename_table(&name("a"), &name("c"), &call),
        &|| store.drop_table(&name("b"), &call),
    ];
    for step in steps {
        let lost = lose_one(&mut between, ResponseReaction::drop_frame());
        step().unwrap();
        assert!(!lost.is_empty());
        between.rules(vec![], vec![]);
    }
    let there = open("lost_names");
    assert_eq!(there.tables().unwrap(), [name("c")]);
    assert_eq!(partners(&there.table(&name("c")).unwrap(), "i"), ["b"]);
}
