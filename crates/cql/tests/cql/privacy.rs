//! No identifier is in an error or a finding: both go to logs.

use crate::common::{Batches, answers, fresh, open, try_erase, try_upsert, upsert};
use crate::proxy::{Between, naming};
use idmatch_model::{Pick, Side, TableOptions, Target, Window};
use idmatch_store::{Error, Ingest, MatchQuery, NoRejects, OpenTables, Table, now};
use scylla::errors::DbError;
use scylla_proxy::{RequestReaction, RequestRule};

const THEN: i64 = 1_750_000_000_000;
/// Is in every identifier here, and in nothing else.
const MARKER: &str = "xq7marked";

fn row(n: usize) -> (String, String, i64) {
    (format!("{MARKER}-id-{n}"), format!("{MARKER}-partner-{n}"), THEN)
}

/// Every operation of a table on marked identifiers.
fn operations(table: &Table) -> Vec<(&'static str, Result<(), Error>)> {
    let rows: Vec<_> = (0..50).map(row).collect();
    let (id, partner_id, _) = row(7);
    let ids: Vec<String> = rows.iter().map(|row| row.0.clone()).collect();
    let query = MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: false };
    let (mut sink, mut batches) = (NoRejects, Batches::of_rows(&rows));
    let ingest = Ingest::new(false, now(), &mut sink);
    let pair = Target::Pair { id: id.clone(), partner_id: partner_id.clone() };
    let targets = [pair, Target::Id(id.clone()), Target::PartnerId(partner_id.clone())];
    let matched = || {
        let found = table.match_population(&mut Batches::of_ids(&ids), query)?;
        found.counts();
        Ok(())
    };
    vec![
        ("load", table.load(&ingest.judged(&mut batches))),
        ("upsert", try_upsert(table, &rows)),
        ("upsert of one row", try_upsert(table, &rows[..1])),
        ("lookup by id", answers(table, Side::Id, &id).map(drop)),
        ("lookup by partner_id", answers(table, Side::PartnerId, &partner_id).map(drop)),
        ("last_seen", table.last_seen(&id, &partner_id).map(drop)),
        ("history", table.history(&id, &partner_id).map(drop)),
        ("match", matched()),
        ("erasure", try_erase(table, &targets, THEN - 1).map(drop)),
    ]
}

#[test]
fn errors_name_no_identifier() {
    let mut between = Between::start();
    let _beside = fresh("privacy");
    let name = "t".parse().unwrap();
    let patient = open("privacy").table_with(&name, &TableOptions::default()).unwrap();
    for (what, result) in operations(&patient) {
        result.unwrap_or_else(|error| panic!("{what}: {}", error.chain()));
    }
    let brief = "&metadata_ttl=50ms&request_timeout=500ms&timeout=3s";
    let table = between.open("privacy", brief).table(&name).unwrap();
    let mut fails = |error, work: &dyn Fn() -> Vec<(&'static str, Result<(), Error>)>| {
        let reaction = RequestReaction::forge_with_error(error);
        between.rules(vec![RequestRule(naming(MARKER), reaction)], vec![]);
        for (what, result) in work() {
            let error = result.expect_err(what);
            let text = format!("{} {error:?}", error.chain());
            assert!(!text.contains(MARKER), "{what}: {text}");
        }
    };
    fails(DbError::Unauthorized, &|| operations(&table));
    fails(DbError::Invalid, &|| operations(&table));
    // These are retried until the timeout.
    let rows: Vec<_> = (0..50).map(row).collect();
    fails(DbError::Overloaded, &|| vec![("upsert", try_upsert(&table, &rows))]);
    let lookup = || answers(&table, Side::Id, &rows[0].0).map(drop);
    fails(DbError::Overloaded, &|| vec![("lookup", lookup())]);
}

#[test]
fn findings_name_no_identifier() {
    let beside = fresh("private");
    let name = "t".parse().unwrap();
    let table = open("private").table_with(&name, &TableOptions::default()).unwrap();
    upsert(&table, &(0..50).map(row).collect::<Vec<_>>());
    beside.truncate("private", "by_partner_id");
    let findings = table.verify().unwrap();
    assert_eq!(findings.len(), 50);
    let repaired = table.repair(false).unwrap();
    assert_eq!(repaired.findings, findings);
    assert!(!format!("{findings:?}").contains(MARKER), "{findings:?}");
    assert_eq!(table.verify().unwrap(), []);
}
