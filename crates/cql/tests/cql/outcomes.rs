//! What callers are told when servers answer badly, or not at all: what may have been done is unknown,
//! never failed and never done, and to repeat it ends well.

use crate::common::{Batches, answers, fresh, open, row_batches, try_upsert, upsert};
use crate::proxy::{Between, naming};
use idmatch_model::{Pick, Side, TableOptions, Window};
use idmatch_store::{
    BatchSource, ErrorFields, ErrorKind, Ingest, MatchQuery, NoRejects, OpenTables, Result,
    RowNumbers, SourceBatch, Table, now,
};
use scylla::errors::{DbError, WriteType};
use scylla::statement::Consistency;
use scylla_proxy::{
    Condition, Reaction, RequestReaction, RequestRule, ResponseOpcode, ResponseReaction,
    ResponseRule,
};
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;

const THEN: i64 = 1_750_000_000_000;
const CONSISTENCY: Consistency = Consistency::LocalQuorum;
/// Nothing is read but what a test asks for.
const QUIET: &str = "&metadata_ttl=60m&speculate_after=off";
/// Gives up soon.
const BRIEF: &str = "&request_timeout=500ms&timeout=3s";

fn row(id: &str) -> (String, String, i64) {
    (id.to_owned(), format!("of-{id}"), THEN)
}

/// A table in a new keyspace, through a proxy.
fn table(between: &Between, keyspace: &str, options: &str) -> Table {
    fresh(keyspace);
    let name = "t".parse().unwrap();
    // Made by a patient store: to make a table takes longer than to write a row.
    let patient = between.open(keyspace, QUIET);
    patient.table_with(&name, &TableOptions::default()).unwrap();
    between.open(keyspace, &format!("{QUIET}{options}")).table(&name).unwrap()
}

/// What the servers have of a row in each direction, asked without the proxy.
fn stored(keyspace: &str, id: &str) -> [bool; 2] {
    let table = open(keyspace).table(&"t".parse().unwrap()).unwrap();
    let (_, partner_id, _) = row(id);
    let by_id = answers(&table, Side::Id, id).unwrap() == [partner_id.as_str()];
    let by_partner_id = answers(&table, Side::PartnerId, &partner_id).unwrap() == [id];
    [by_id, by_partner_id]
}

fn says(error: DbError) -> RequestReaction {
    RequestReaction::forge_with_error(error)
}

fn write_timeout() -> DbError {
    let write_type = WriteType::Simple;
    DbError::WriteTimeout { consistency: CONSISTENCY, received: 1, required: 2, write_type }
}

/// What nodes may say or do, that leaves open what became of a write.
fn open_answers() -> Vec<(&'static str, RequestReaction)> {
    let (consistency, received, required) = (CONSISTENCY, 1, 2);
    let write_type = WriteType::Simple;
    let failure =
        DbError::WriteFailure { consistency, received, required, numfailures: 1, write_type };
    vec![
        ("write-timeout", says(write_timeout())),
        ("write-failure", says(failure)),
        ("unavailable", says(DbError::Unavailable { consistency, required, alive: 1 })),
        ("overloaded", says(DbError::Overloaded)),
        ("bootstrapping", says(DbError::IsBootstrapping)),
        ("server-error", says(DbError::ServerError)),
        ("truncate-error", says(DbError::TruncateError)),
        ("unknown-code", says(DbError::Other(0x1700))),
        ("no-answer", RequestReaction::drop_frame()),
    ]
}

/// What nodes say when they did nothing and never will.
fn refusals() -> Vec<(&'static str, RequestReaction)> {
    vec![
        ("unauthorized", says(DbError::Unauthorized)),
        ("invalid", says(DbError::Invalid)),
        ("syntax-error", says(DbError::SyntaxError)),
        ("config-error", says(DbError::ConfigError)),
    ]
}

fn rules(cases: &[(&'static str, RequestReaction)]) -> Vec<RequestRule> {
    let rule = |case: &(&str, RequestReaction)| RequestRule(naming(case.0), case.1.clone());
    cases.iter().map(rule).collect()
}

/// Upserts a row for each case, all at once; gives the kinds of errors.
fn outcomes(
    table: &Table,
    cases: &[(&'static str, RequestReaction)],
) -> Vec<(&'static str, ErrorKind)> {
    let upsert = |id: &'static str| {
        let error = try_upsert(table, &[row(id)]).expect_err(id);
        (id, error.kind())
    };
    std::thread::scope(|scope| {
        let tasks: Vec<_> = cases.iter().map(|(id, _)| scope.spawn(move || upsert(id))).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    })
}

#[test]
fn what_may_have_been_done_is_unknown() {
    let mut between = Between::start();
    let table = table(&between, "unknown", BRIEF);
    let cases = open_answers();
    between.rules(rules(&cases), vec![]);
    for (id, kind) in outcomes(&table, &cases) {
        assert_eq!(kind, ErrorKind::UnknownOutcome, "{id}");
    }
    between.rules(vec![], vec![]);
    for (id, _) in &cases {
        upsert(&table, &[row(id)]);
        assert_eq!(stored("unknown", id), [true, true], "{id}");
    }
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn what_is_refused_was_not_done() {
    let mut between = Between::start();
    let table = table(&between, "refusing", BRIEF);
    let cases = refusals();
    between.rules(rules(&cases), vec![]);
    for (id, kind) in outcomes(&table, &cases) {
        assert_eq!(kind, ErrorKind::Io, "{id}");
        assert_eq!(stored("refusing", id), [false, false], "{id}");
    }
    // Refused only after it may have been done.
    let once = naming("changing").and(Condition::TrueForLimitedTimes(2));
    let late = RequestRule(once, says(write_timeout()));
    let refusal = RequestRule(naming("changing"), says(DbError::Unauthorized));
    between.rules(vec![late, refusal], vec![]);
    let error = try_upsert(&table, &[row("changing")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownOutcome, "{}", error.chain());
}

#[test]
fn what_passes_is_not_noticed() {
    let mut between = Between::start();
    // Each node may lose an answer twice.
    let table = table(&between, "passing", "&request_timeout=2s");
    let mut cases = open_answers();
    cases.push(("broken-connection", RequestReaction::drop_connection()));
    let few = |case: &(&str, RequestReaction)| {
        let twice = naming(case.0).and(Condition::TrueForLimitedTimes(2));
        RequestRule(twice, case.1.clone())
    };
    between.rules(cases.iter().map(few).collect(), vec![]);
    for (id, _) in &cases {
        upsert(&table, &[row(id)]);
        assert_eq!(stored("passing", id), [true, true], "{id}");
    }
}

/// What a node says that was away when the table was made. In truth all nodes have heard of it, and agree.
#[test]
fn a_table_that_a_node_has_not_heard_of_is_asked_for_again() {
    let mut between = Between::start();
    let table = table(&between, "unheard", BRIEF);
    for (n, words) in [
        "keyspace unheard does not exist",
        "Keyspace 'unheard' doesn't exist",
        "table t does not exist",
        "unconfigured table t",
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("unheard-{n}");
        let words = || {
            let words = Some(words.to_owned());
            RequestReaction::forge_with_error_and_message(DbError::Invalid, words)
        };
        // Any node may be asked: until it was the one that says so.
        let mut until_said = |work: &dyn Fn()| {
            let (said, times) = unbounded_channel();
            let once = naming(&id).and(Condition::TrueForLimitedTimes(1));
            let words = words().with_feedback_when_performed(said);
            between.rules_of_one(vec![RequestRule(once, words)]);
            assert!((0..200).any(|_| {
                work();
                !times.is_empty()
            }));
        };
        until_said(&|| upsert(&table, &[row(&id)]));
        assert_eq!(stored("unheard", &id), [true, true], "{id}");
        until_said(&|| {
            assert_eq!(answers(&table, Side::Id, &id).unwrap(), [row(&id).1], "{id}");
        });
        // Nobody has.
        between.rules(vec![RequestRule(naming(&id), words())], vec![]);
        let error = answers(&table, Side::Id, &id).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{}", error.chain());
    }
}

#[test]
fn match_retries_longer_than_lookup() {
    let mut between = Between::start();
    let table = table(&between, "busy", &format!("{BRIEF}&match_reads=in_queries"));
    let ids: Vec<String> = (0..200).map(|n| format!("busy-{n}")).collect();
    upsert(&table, &ids.iter().map(|id| row(id)).collect::<Vec<_>>());
    let query = MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: false };
    let matched = || table.match_population(&mut Batches::of_ids(&ids), query).unwrap();
    // With requests under way of its own, and all that it needs to know of the table.
    let store = between.open("busy", &format!("{QUIET}{BRIEF}"));
    let aside = store.table(&"t".parse().unwrap()).unwrap();
    assert_eq!(answers(&aside, Side::Id, "busy-7").unwrap(), ["of-busy-7"]);
    let timeout = DbError::ReadTimeout {
        consistency: CONSISTENCY,
        received: 1,
        required: 2,
        data_present: true,
    };
    between.rules(vec![RequestRule(naming("busy-"), says(timeout))], vec![]);
    let counts = std::thread::scope(|scope| {
        let matching = scope.spawn(|| matched().counts());
        let error = answers(&aside, Side::Id, "busy-7").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", error.chain());
        between.rules(vec![], vec![]);
        matching.join().unwrap()
    });
    assert_eq!((counts.population, counts.matched, counts.rows), (200, 200, 200));
}

#[test]
fn a_write_whose_answer_is_lost_is_unknown_and_there() {
    let mut between = Between::start();
    let table = table(&between, "lost", BRIEF);
    // All statements are prepared by then; the answer to a write is a result of no rows.
    upsert(&table, &[row("first")]);
    let written = || {
        let void = Condition::BodyContainsCaseSensitive([0, 0, 0, 1].into());
        Condition::ResponseOpcode(ResponseOpcode::Result).and(void)
    };
    let garble = ResponseReaction::transform_frame(Arc::new(|mut frame| {
        frame.body = vec![0x7f; 4].into();
        frame
    }));
    for (id, reaction) in [
        ("lost-answer", ResponseReaction::drop_frame()),
        ("garbled-answer", garble),
        ("lost-connection", ResponseReaction::drop_connection()),
    ] {
        between.rules(vec![], vec![ResponseRule(written(), reaction)]);
        let error = try_upsert(&table, &[row(id)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownOutcome, "{id}: {}", error.chain());
        between.rules(vec![], vec![]);
        assert_eq!(stored("lost", id), [true, true], "{id}");
        upsert(&table, &[row(id)]);
        assert_eq!(stored("lost", id), [true, true], "{id}");
    }
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn a_direction_that_is_not_written_is_unknown_and_repaired() {
    let mut between = Between::start();
    let table = table(&between, "half", BRIEF);
    // Values follow one another, each after its length: by partner_id that comes first.
    let by_partner_id = "of-torn\0\0\0\u{4}torn";
    let lost = RequestRule(naming(by_partner_id), RequestReaction::drop_frame());
    between.rules(vec![lost], vec![]);
    let error = try_upsert(&table, &[row("torn")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownOutcome, "{}", error.chain());
    between.rules(vec![], vec![]);
    assert_eq!(stored("half", "torn"), [true, false]);
    assert_eq!(table.verify().unwrap().len(), 1);
    upsert(&table, &[row("torn")]);
    assert_eq!(stored("half", "torn"), [true, true]);
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn rows_count_as_missing_until_both_directions_have_them() {
    let mut between = Between::start();
    let table = table(&between, "counted", &format!("{BRIEF}&in_flight=1"));
    let rows: Vec<_> = (100..900).map(|n| row(&format!("many-{n}"))).collect();
    // One row is refused by partner_id, with all of its request; what would follow is not sent.
    let by_partner_id = naming("of-many-500\0\0\0\u{8}many-500");
    between.rules(vec![RequestRule(by_partner_id, says(DbError::Unauthorized))], vec![]);
    let error = try_upsert(&table, &rows).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownOutcome, "{}", error.chain());
    let there = open("counted").table(&"t".parse().unwrap()).unwrap();
    let half = there.verify().unwrap().len();
    assert!(half > 0);
    let said = format!("{half} of 800 rows for table t were not acknowledged by both directions");
    assert!(error.to_string().starts_with(&said), "{half}: {}", error.chain());
    assert_eq!(error.fields(), Some(&open_rows(1..801)));
    upsert(&there, &rows);
    assert_eq!(there.verify().unwrap(), []);
}

fn open_rows(rows: Range<u64>) -> ErrorFields {
    ErrorFields::UnknownOutcome { rows: RowNumbers::of("test", rows) }
}

#[test]
fn rows_after_the_acknowledged_ones_are_open() {
    let mut between = Between::start();
    let table = table(&between, "chunks", "");
    let rows: Vec<_> = (0..45_000).map(|n| row(&format!("many-{n}"))).collect();
    // An upsert is written 20,000 rows at a time: this is one of the second time. Meanwhile the rest is
    // taken from the source.
    let refusal = says(DbError::Unauthorized);
    between.rules(vec![RequestRule(naming("of-many-25000"), refusal)], vec![]);
    let mut source = Given(row_batches(&rows, 10_000).into_iter());
    let rejects = &mut NoRejects;
    let upserted = table.upsert(&Ingest::new(true, now(), rejects).judged(&mut source), None);
    let error = upserted.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownOutcome, "{}", error.chain());
    assert_eq!(error.fields(), Some(&open_rows(20_001..45_001)));
    between.rules(vec![], vec![]);
    for n in (0..20_000).step_by(1_999) {
        assert_eq!(stored("chunks", &format!("many-{n}")), [true, true], "{n}");
    }
}

/// Batches that are in memory.
struct Given(std::vec::IntoIter<SourceBatch>);

impl BatchSource for Given {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        Ok(self.0.next())
    }
}

#[test]
fn connections_that_break_under_a_batch_lose_nothing() {
    const ROWS: usize = 3_000;
    let mut between = Between::start();
    let table = table(&between, "breaking", "");
    let breaks = naming("many-").and(Condition::TrueForLimitedTimes(6));
    between.rules(vec![RequestRule(breaks, RequestReaction::drop_connection())], vec![]);
    let rows: Vec<_> = (0..ROWS).map(|n| row(&format!("many-{n}"))).collect();
    upsert(&table, &rows);
    for n in (0..ROWS).step_by(100) {
        assert_eq!(stored("breaking", &format!("many-{n}")), [true, true], "{n}");
    }
    assert_eq!(table.stats().unwrap().rows, ROWS as u64);
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn reads_wait_for_servers_and_then_say_so() {
    let mut between = Between::start();
    let table = table(&between, "reading", BRIEF);
    let (consistency, received, required, data_present) = (CONSISTENCY, 1, 2, false);
    let timeout = DbError::ReadTimeout { consistency, received, required, data_present };
    let cases = [
        ("read-timeout", says(timeout), ErrorKind::Unavailable),
        ("overloaded", says(DbError::Overloaded), ErrorKind::Unavailable),
        ("no-answer", RequestReaction::drop_frame(), ErrorKind::Unavailable),
        ("unauthorized", says(DbError::Unauthorized), ErrorKind::Io),
    ];
    let rows: Vec<_> = cases.iter().map(|case| row(case.0)).collect();
    upsert(&table, &rows);
    let rules = |few: bool| -> Vec<RequestRule> {
        let limit = || if few { Condition::TrueForLimitedTimes(1) } else { Condition::True };
        let rule = |case: &(&str, RequestReaction, _)| {
            RequestRule(naming(case.0).and(limit()), case.1.clone())
        };
        cases.iter().map(rule).collect()
    };
    between.rules(rules(false), vec![]);
    for (id, _, kind) in &cases {
        let error = answers(&table, Side::Id, id).unwrap_err();
        assert_eq!(error.kind(), *kind, "{id}: {}", error.chain());
    }
    between.rules(rules(true), vec![]);
    for (id, _, kind) in &cases {
        if *kind == ErrorKind::Unavailable {
            assert_eq!(answers(&table, Side::Id, id).unwrap(), [row(id).1], "{id}");
        }
    }
}
