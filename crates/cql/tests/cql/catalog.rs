//! The catalog's conditional writes, whose answers are lost or forged: what they decide is decided once,
//! and whoever cannot know how is told so.

use crate::common::{answers, fresh, open, replicas, try_erase, upsert};
use crate::proxy::{Between, naming};
use idmatch_cql::CqlStore;
use idmatch_model::{Period, Side, TableOptions, Target};
use idmatch_store::{Erased, ErrorKind, OpenTables, Result, Table};
use scylla::errors::{DbError, WriteType};
use scylla::statement::Consistency;
use scylla_proxy::{
    Condition, Reaction, RequestReaction, RequestRule, ResponseFrame, ResponseOpcode,
    ResponseReaction, ResponseRule,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const THEN: i64 = 1_750_000_000_000;
/// Time for an answer that is lost by each node, and for the one after them.
pub(crate) const PATIENT: &str =
    "&metadata_ttl=50ms&speculate_after=off&request_timeout=2s&timeout=12s";
/// Time for no more than one.
const BRIEF: &str = "&metadata_ttl=50ms&speculate_after=off&request_timeout=4s&timeout=4s";

fn rows(ids: &[&str]) -> Vec<(String, String, i64)> {
    ids.iter().map(|id| ((*id).to_owned(), format!("of-{id}"), THEN)).collect()
}

/// What a rule did away with.
type Lost = UnboundedReceiver<(ResponseFrame, Option<u16>)>;

/// Does away with one answer of each node to a conditional write that was done.
pub(crate) fn lose_one(between: &mut Between, reaction: ResponseReaction) -> Lost {
    let (lost, all) = unbounded_channel();
    // Cassandra tells this name with every such answer.
    let applied = Condition::BodyContainsCaseSensitive(b"[applied]"[..].into());
    let decided = Condition::ResponseOpcode(ResponseOpcode::Result).and(applied);
    let one = decided.and(Condition::TrueForLimitedTimes(1));
    let rule = ResponseRule(one, reaction.with_feedback_when_performed(lost));
    between.rules(vec![], vec![rule]);
    all
}

/// The making of a table of this name is answered with a timeout that leaves open who was first.
fn time_out(between: &mut Between, name: &str) {
    // Values follow one another, each after its length.
    let making = naming(&format!("{name}\0\0\0\u{4}last"));
    let (consistency, write_type) = (Consistency::Serial, WriteType::Cas);
    let timeout = DbError::WriteTimeout { consistency, received: 1, required: 2, write_type };
    between.rules(vec![RequestRule(making, RequestReaction::forge_with_error(timeout))], vec![]);
}

fn make(store: &CqlStore, name: &str) -> Result<Table> {
    store.table_with(&name.parse().unwrap(), &TableOptions::default())
}

fn erase(table: &Table, id: &str) -> Result<Erased> {
    try_erase(table, &[Target::Id(id.to_owned())], THEN)
}

#[test]
fn a_table_whose_making_is_not_answered_is_made_once() {
    let mut between = Between::start();
    let beside = fresh("making");
    let store = between.open("making", PATIENT);
    make(&store, "first").unwrap();
    for (name, reaction) in
        [("lost", ResponseReaction::drop_frame()), ("broken", ResponseReaction::drop_connection())]
    {
        let lost = lose_one(&mut between, reaction);
        let table = make(&store, name).unwrap();
        assert!((1..=replicas()).contains(&lost.len()), "{name}");
        between.rules(vec![], vec![]);
        upsert(&table, &rows(&["a"]));
    }
    time_out(&mut between, "open");
    let error = make(&store, "open").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::UnknownOutcome, "{}", error.chain());
    between.rules(vec![], vec![]);
    upsert(&make(&store, "open").unwrap(), &rows(&["a"]));
    // One entry for each table.
    assert_eq!(beside.count("making.idmatch_tables"), 4);
    let names = ["broken", "first", "lost", "open"].map(|name| name.parse().unwrap());
    assert_eq!(open("making").tables().unwrap(), names);
}

#[test]
fn an_erasure_whose_note_is_not_answered_is_entered_once() {
    let mut between = Between::start();
    let beside = fresh("noting");
    let table = make(&between.open("noting", PATIENT), "t").unwrap();
    upsert(&table, &rows(&["a", "b", "c"]));
    let brief = between.open("noting", BRIEF).table(&"t".parse().unwrap()).unwrap();
    let entries = || beside.count("noting.idmatch_tables");
    let lost = lose_one(&mut between, ResponseReaction::drop_frame());
    let expected = Erased { by_id: 1, by_partner_id: 1, checkpoints: Vec::new() };
    assert_eq!(erase(&table, "a").unwrap(), expected);
    assert!((1..=replicas()).contains(&lost.len()));
    assert_eq!(entries(), 2);
    let lost = lose_one(&mut between, ResponseReaction::drop_frame());
    let error = erase(&brief, "b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownOutcome, "{}", error.chain());
    assert_eq!((lost.len(), entries()), (1, 3));
    between.rules(vec![], vec![]);
    erase(&table, "b").unwrap();
    let there = open("noting").table(&"t".parse().unwrap()).unwrap();
    for (id, partner_ids) in [("a", vec![]), ("b", vec![]), ("c", vec!["of-c"])] {
        assert_eq!(answers(&there, Side::Id, id).unwrap(), partner_ids, "{id}");
    }
    assert_eq!(there.verify().unwrap(), []);
}

#[test]
fn a_retention_whose_change_is_not_answered_is_changed_once() {
    let mut between = Between::start();
    fresh("changing");
    let table = make(&between.open("changing", PATIENT), "t").unwrap();
    for retention in [Some("13mo"), None] {
        let retention = retention.map(|text| Period::parse(text).unwrap());
        let lost = lose_one(&mut between, ResponseReaction::drop_frame());
        table.set_retention(retention.clone()).unwrap();
        assert!((1..=replicas()).contains(&lost.len()));
        between.rules(vec![], vec![]);
        let there = open("changing").table(&"t".parse().unwrap()).unwrap();
        assert_eq!(there.options().unwrap().retention, retention);
    }
}
