//! Stores that are not opened: why is said, and nothing is written.

use crate::common::{Beside, contact_points, fresh, open, settings_of, settings_with_copies};
use crate::proxy::Between;
use idmatch_cql::CqlStore;
use idmatch_model::TableOptions;
use idmatch_store::{Call, ErrorFields, ErrorKind, OpenTables, admin};
use scylla_proxy::{Condition, Reaction, RequestReaction, RequestRule};
use std::path::Path;
use std::sync::Arc;

const CLOCK: &str = "toTimestamp(now())";

/// Asserts that nobody opens it, for a reason with these words.
fn assert_rejected(points: &str, keyspace: &str, options: &str, kind: ErrorKind, said: &[&str]) {
    let opened = CqlStore::open(settings_of(points, keyspace, options));
    let error = opened.err().expect("a store that cannot be opened");
    let text = error.chain();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(said.iter().all(|word| text.contains(word)), "{text}");
}

/// Everything that a keyspace has.
fn everything(beside: &Beside, keyspace: &str) -> Vec<String> {
    let tables =
        format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'");
    let tables = beside.texts(&tables);
    let rows = |table: &String| beside.texts(&format!("SELECT JSON * FROM {keyspace}.{table}"));
    let rows: Vec<String> = tables.iter().flat_map(rows).collect();
    [tables, rows].concat()
}

#[test]
fn a_missing_keyspace_is_not_made() {
    let beside = fresh("missing");
    let said = ["no keyspace missing", "replication="];
    assert_rejected(&contact_points(), "missing", "", ErrorKind::NotAStore, &said);
    let keyspaces = "SELECT keyspace_name FROM system_schema.keyspaces";
    assert!(!beside.texts(keyspaces).contains(&"missing".to_owned()));
}

#[test]
fn tables_of_another_version_are_left_alone() {
    let beside = fresh("versions");
    open("versions").table_with(&"t".parse().unwrap(), &TableOptions::default()).unwrap();
    beside.run("UPDATE versions.idmatch_store SET version = 1 WHERE part = 'store'");
    let before = everything(&beside, "versions");
    let said = ["versions", "version 1", "version 2"];
    assert_rejected(&contact_points(), "versions", "", ErrorKind::UnsupportedFormat, &said);
    assert_eq!(everything(&beside, "versions"), before);
}

#[test]
fn a_backup_names_another_way() {
    let _beside = fresh("backups");
    let store = open("backups");
    let to = Path::new("/nowhere");
    let error = admin(&store).unwrap().backup(to, &Call::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let instead = ErrorFields::Unsupported { instead: "nodetool snapshot".to_owned() };
    assert_eq!(error.fields(), Some(&instead));
}

#[test]
fn clocks_that_differ_are_named() {
    let mut between = Between::start();
    let beside = fresh("clocks");
    for (asked, minutes) in
        [("toTimestamp(now()) + 2m", "120"), ("toTimestamp(now()) - 1h", "3600")]
    {
        between.rules(vec![instead(CLOCK, asked)], vec![]);
        let points = between.address();
        let seconds = minutes.parse::<i64>().unwrap();
        // Whole seconds, and one may pass.
        let opened = CqlStore::open(settings_with_copies(&points, "clocks", ""));
        let error = opened.err().expect("clocks that differ");
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        let apart = (seconds - 50..seconds + 50).any(|n| text.contains(&format!("{n} s apart")));
        assert!(apart && text.contains("NTP"), "{text}");
    }
    let keyspaces = "SELECT keyspace_name FROM system_schema.keyspaces";
    assert!(!beside.texts(keyspaces).contains(&"clocks".to_owned()));
    between.rules(vec![instead(CLOCK, "toTimestamp(now()) + 20s")], vec![]);
    CqlStore::open(settings_with_copies(&between.address(), "clocks", "")).unwrap();
}

/// Another question in place of one that has this text: a query is its length and its text, and then
/// what is chosen for it.
fn instead(text: &'static str, other: &'static str) -> RequestRule {
    let change = move |mut frame: scylla_proxy::RequestFrame| {
        let (length, rest) = frame.body.split_at(4);
        let (query, choices) =
            rest.split_at(u32::from_be_bytes(length.try_into().unwrap()) as usize);
        let query = String::from_utf8(query.to_vec()).unwrap().replace(text, other);
        let length = u32::try_from(query.len()).unwrap().to_be_bytes();
        frame.body = [&length, query.as_bytes(), choices].concat().into();
        frame
    };
    let asks = Condition::BodyContainsCaseSensitive(text.as_bytes().into());
    RequestRule(asks, RequestReaction::transform_frame(Arc::new(change)))
}
