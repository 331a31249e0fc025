//! How long rows live in the servers: by their dates, and anew when a retention is changed.

use crate::common::{Beside, answers, fresh, load, open_with, upsert};
use crate::proxy::{Between, naming};
use idmatch_cql::CqlStore;
use idmatch_model::{Period, Side, TableOptions};
use idmatch_store::{Call, OpenTables, Store, Table, now};
use scylla::errors::DbError;
use scylla_proxy::{RequestReaction, RequestRule};

/// A change waits for as long as a write may take.
const OPTIONS: &str = "&metadata_ttl=50ms&speculate_after=off&request_timeout=1s&timeout=2s";
const DAY: i64 = 86_400;
/// What a row lives longer than it is shown, so that no clock cuts it short.
const MARGIN: i64 = 4 * DAY;
/// Seconds that a test may take.
const GRACE_S: i64 = 600;

fn days(count: i64) -> Option<Period> {
    Some(Period::parse(&format!("{count}d")).unwrap())
}

/// Rows that were seen so many days ago, each with an id that says so.
fn seen(ago: &[i64]) -> Vec<(String, String, i64)> {
    let now = now().millis_i64();
    let row = |days: &i64| (format!("d{days}"), format!("of-d{days}"), now - days * DAY * 1_000);
    ago.iter().map(row).collect()
}

fn table(store: &CqlStore, retention: Option<Period>) -> Table {
    let options = TableOptions { retention, ..TableOptions::default() };
    store.table_with(&"t".parse().unwrap(), &options).unwrap()
}

/// In both directions each row lives for what is left of these days since it was seen, or for ever;
/// gives the timestamps.
fn assert_live(beside: &Beside, keyspace: &str, retention: Option<i64>, ago: &[i64]) -> Vec<i64> {
    let mut timestamps = Vec::new();
    for (by, end) in [(Side::Id, "_by_id"), (Side::PartnerId, "_by_partner_id")] {
        let lives = beside.lives(keyspace, end);
        assert_eq!(lives.len(), ago.len(), "{by:?}");
        for days in ago {
            let (id, partner_id) = (format!("d{days}"), format!("of-d{days}"));
            let pair = if by == Side::Id { (id, partner_id) } else { (partner_id, id) };
            let (seconds, timestamp) = lives[&pair];
            timestamps.push(timestamp);
            let expected = retention.map(|all| (all - days) * DAY + MARGIN);
            let seconds = seconds.map(i64::from);
            match (seconds, expected) {
                (Some(seconds), Some(expected)) => {
                    let is_right = (expected - GRACE_S..=expected).contains(&seconds);
                    assert!(is_right, "{pair:?}: {seconds} s, not {expected}");
                }
                _ => assert_eq!(seconds, expected, "{pair:?}"),
            }
        }
    }
    timestamps
}

#[test]
fn rows_live_as_long_as_a_retention_shows_them() {
    let beside = fresh("living");
    let store = open_with("living", "&request_timeout=1s&timeout=2s");
    let table = table(&store, days(400));
    let ago = [0, 100, 399];
    // By a batch, one by one, and one that is too old to be written at all.
    load(&table, &seen(&[100, 399, 401]));
    upsert(&table, &seen(&[0]));
    let first = assert_live(&beside, "living", Some(400), &ago);
    for longer in [Some(500), None] {
        table.set_retention(longer.and_then(days)).unwrap();
        assert_live(&beside, "living", longer, &ago);
    }
    // The same dates, written by a later choice.
    let last = assert_live(&beside, "living", None, &ago);
    assert_eq!(first.iter().map(|at| at + 2).collect::<Vec<_>>(), last);
    // What a shorter one hides stays on the servers for a day, and so does what is written meanwhile.
    table.set_retention(days(50)).unwrap();
    upsert(&table, &seen(&[200]));
    table.compact().unwrap();
    let shown = |table: &Table| {
        let ids = ["d0", "d100", "d200", "d399"];
        ids.map(|id| answers(table, Side::Id, id).unwrap().len())
    };
    assert_eq!(shown(&table), [1, 0, 0, 0]);
    table.set_retention(None).unwrap();
    assert_eq!(shown(&table), [1; 4]);
    assert_live(&beside, "living", None, &[0, 100, 200, 399]);
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn what_is_purged_can_be_written_again_under_a_longer_retention() {
    let beside = fresh("again");
    let store = open_with("again", "&request_timeout=1s&timeout=2s");
    let table = table(&store, days(400));
    load(&table, &seen(&[0, 100, 399]));
    table.set_retention(days(50)).unwrap();
    // As if the day were over.
    let id = beside.id("again", "t");
    beside.run(&format!("UPDATE again.idmatch_tables SET kept_until = 1000 WHERE id = {id}"));
    store.refresh(&Call::default()).unwrap();
    table.compact().unwrap();
    assert_eq!(beside.lives("again", "_by_id").len(), 1);
    table.set_retention(days(400)).unwrap();
    // The same dates, which the purge has removed.
    let rows = seen(&[100, 399]);
    load(&table, &rows[..1]);
    upsert(&table, &rows[1..]);
    for id in ["d0", "d100", "d399"] {
        assert_eq!(answers(&table, Side::Id, id).unwrap(), [format!("of-{id}")]);
        assert_eq!(answers(&table, Side::PartnerId, &format!("of-{id}")).unwrap(), [id]);
    }
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn a_longer_retention_shows_a_row_that_one_direction_has_lost() {
    let beside = fresh("halves");
    let store = open_with("halves", "&request_timeout=1s&timeout=2s");
    let table = table(&store, days(50));
    let old = now().millis_i64() - 60 * DAY * 1_000;
    // Rows that expire in one direction a moment before the other.
    beside.add("halves", ("t", "by_id"), ("only-by-id", "p", old));
    beside.add("halves", ("t", "by_partner_id"), ("q", "only-by-partner", old));
    table.set_retention(days(90)).unwrap();
    for (id, partner_id) in [("only-by-id", "p"), ("only-by-partner", "q")] {
        assert_eq!(answers(&table, Side::Id, id).unwrap(), [partner_id]);
        assert_eq!(answers(&table, Side::PartnerId, partner_id).unwrap(), [id]);
    }
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn rows_that_would_live_past_what_servers_can_count_live_for_ever() {
    let beside = fresh("far");
    let store = open_with("far", "");
    // Cassandra counts the seconds since 1970 in 31 bits, until 2038.
    let years = table(&store, Some(Period::parse("30y").unwrap()));
    upsert(&years, &seen(&[0]));
    assert_live(&beside, "far", None, &[0]);
}

#[test]
fn a_change_that_ends_early_is_noticed_and_finished() {
    let mut between = Between::start();
    let beside = fresh("early");
    let store = between.open("early", OPTIONS);
    let table = table(&store, days(400));
    upsert(&table, &seen(&[0, 100]));
    let refusal = RequestReaction::forge_with_error(DbError::Unauthorized);
    between.rules(vec![RequestRule(naming("of-d100"), refusal)], vec![]);
    let error = table.set_retention(days(500)).unwrap_err();
    assert!(error.to_string().contains("set it again"), "{}", error.chain());
    between.rules(vec![], vec![]);
    assert_eq!(table.options().unwrap().retention, days(500));
    let findings = table.verify().unwrap();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].problem.contains("time to live"), "{findings:?}");
    assert_eq!(table.repair(false).unwrap().findings, findings);
    assert_live(&beside, "early", Some(500), &[0, 100]);
    assert_eq!(table.verify().unwrap(), []);
}
