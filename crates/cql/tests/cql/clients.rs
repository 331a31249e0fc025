//! Several clients of one store: what one does, the others see.

use crate::common::{answers, contact_points, erase, fresh, open, settings_of, upsert};
use idmatch_cql::CqlStore;
use idmatch_model::{Keep, Side, TableId, TableOptions, Target};
use idmatch_store::{Call, ErrorKind, OpenTables, Store, Table};
use std::net::TcpListener;

const THEN: i64 = 1_750_000_000_000;

fn row(id: &str, partner_id: &str) -> (String, String, i64) {
    (id.to_owned(), partner_id.to_owned(), THEN)
}

fn partners(table: &Table, id: &str) -> Vec<String> {
    answers(table, Side::Id, id).unwrap()
}

#[test]
fn an_erasure_holds_for_clients_that_were_there_before() {
    let _beside = fresh("clients");
    let (first, second) = (open("clients"), open("clients"));
    let name = "t".parse().unwrap();
    let here = first.table_with(&name, &TableOptions::default()).unwrap();
    let there = second.table(&name).unwrap();
    for n in 0..20 {
        let (id, partner_id) = (format!("id{n}"), format!("p{n}"));
        upsert(&here, &[row(&id, &partner_id)]);
        assert_eq!(partners(&there, &id), [partner_id.as_str()]);
        erase(&here, &[Target::Id(id.clone())], THEN);
        // Late, and by who was not told.
        upsert(&there, &[row(&id, "late"), row("other", &partner_id)]);
        assert_eq!(partners(&there, &id), [""; 0]);
        assert_eq!(partners(&here, &id), [""; 0]);
    }
    assert_eq!(answers(&there, Side::PartnerId, "late").unwrap(), [""; 0]);
    assert_eq!(partners(&here, "other").len(), 20);
}

#[test]
fn clients_that_make_a_table_at_once_have_the_same() {
    let _beside = fresh("makers");
    let options = TableOptions { keep: Keep::All, retention: None };
    let name = "t".parse().unwrap();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (name, options) = (&name, &options);
            scope.spawn(move || {
                let table = open("makers").table_with(name, options).unwrap();
                upsert(&table, &[row("id", &format!("p{n}"))]);
            });
        }
    });
    let table = open("makers").table(&name).unwrap();
    assert_eq!(partners(&table, "id"), ["p0", "p1", "p2", "p3"]);
    let other = open("makers").table_with(&name, &TableOptions::default());
    assert_eq!(other.err().map(|e| e.kind()), Some(ErrorKind::TableExists));
}

#[test]
fn each_table_of_a_client_has_an_id_which_is_the_same_for_all_clients() {
    let _beside = fresh("ids");
    let (first, second) = (open("ids"), open("ids"));
    let names = ["a", "b"].map(|name| name.parse().unwrap());
    let ids = names.each_ref().map(|name| {
        let table = first.table_with(name, &TableOptions::default()).unwrap();
        table.snapshot().unwrap().id()
    });
    assert_ne!(ids[0], ids[1]);
    let call = Call::default();
    let snapshot = second.snapshot(&call).unwrap();
    for (name, id) in names.iter().zip(ids) {
        // This client has not opened it.
        assert_eq!(snapshot.table(id, &call).unwrap().name(), name);
        assert_eq!(snapshot.resolve(name, &call).unwrap(), id);
    }
    assert_eq!(snapshot.tables(&call).unwrap(), names);
    let missing = snapshot.table(TableId(7), &call).err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::TableNotFound, "{}", missing.chain());
}

#[test]
fn contact_points_that_hang_are_passed_over() {
    let _beside = fresh("hangs");
    let name = "t".parse().unwrap();
    let table = open("hangs").table_with(&name, &TableOptions::default()).unwrap();
    upsert(&table, &[row("id", "p")]);
    // They take connections and say nothing.
    let hang: [_; 3] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [a, b, c] = hang.each_ref().map(|point| point.local_addr().unwrap());
    let points = format!("{a},{b},{c},{}", contact_points());
    // Which one is asked first is left to chance; who waits for one of these is late.
    for _ in 0..6 {
        let settings = settings_of(&points, "hangs", "&request_timeout=5s&timeout=5s");
        let table = CqlStore::open(settings).unwrap().table(&name).unwrap();
        assert_eq!(partners(&table, "id"), ["p"]);
    }
}

#[test]
fn rows_of_one_direction_only_are_found_and_repaired() {
    let beside = fresh("lacking");
    let store = open("lacking");
    for keep in [Keep::Last, Keep::All] {
        let options = TableOptions { keep, retention: None };
        let name = format!("{keep:?}");
        let table = store.table_with(&name.parse().unwrap(), &options).unwrap();
        let rows: Vec<_> = (0..1_000).map(|n| row(&format!("id{n}"), "p")).collect();
        upsert(&table, &rows);
        assert_eq!(table.verify().unwrap(), []);
        beside.add("lacking", (&name, "by_partner_id"), ("p", "half", THEN));
        assert_eq!(partners(&table, "half"), [""; 0]);
        let findings = table.verify().unwrap();
        assert_eq!(findings.len(), 1, "{findings:?}");
        let [by_id, by_partner_id] = ["half", "p"].map(|key| beside.bucket("lacking", key));
        let place =
            format!("table {name}, a row of bucket {by_id} by id, {by_partner_id} by partner_id");
        assert_eq!(findings[0].place, place);
        let problem = "by id there is nothing, by partner_id 2025-06-15T15:06:40.000Z";
        assert_eq!(findings[0].problem, problem);
        assert_eq!(table.repair(false).unwrap().findings, findings);
        assert_eq!(table.verify().unwrap(), []);
        assert_eq!(partners(&table, "half"), ["p"]);
    }
}
