//! Lookups of many keys: by position, with a limit, and with few requests.

use crate::common::{fresh, load, open_with};
use crate::proxy::{Between, naming};
use idmatch_model::{Keep, SeenAt, Side, TableOptions, Window};
use idmatch_store::{Lookup, OpenTables, Table};
use scylla_proxy::{Reaction, RequestReaction, RequestRule};
use tokio::sync::mpsc::unbounded_channel;

const THEN: i64 = 1_750_000_000_000;
const OPTIONS: &str = "&metadata_ttl=50ms&speculate_after=off&hot_key_rows=1000";

fn row(id: &str, partner_id: &str, later: i64) -> (String, String, i64) {
    (id.to_owned(), partner_id.to_owned(), THEN + later)
}

/// The answers of each key.
fn found(table: &Table, keys: &[&str], lookup: Lookup) -> Vec<Vec<(String, i64)>> {
    let answers = table.lookup_many(keys, lookup).unwrap();
    assert_eq!(answers.keys(), keys.len());
    let of = |key| answers.of(key).map(|(value, at)| (value.to_owned(), at.millis_i64() - THEN));
    (0..keys.len()).map(|key| of(key).collect()).collect()
}

fn values(values: &[(&str, i64)]) -> Vec<(String, i64)> {
    values.iter().map(|(value, later)| ((*value).to_owned(), *later)).collect()
}

#[test]
fn answers_come_by_position_newest_first() {
    let _beside = fresh("positions");
    let store = open_with("positions", "");
    for keep in [Keep::Last, Keep::All] {
        let options = TableOptions { keep, retention: None };
        let table = store.table_with(&format!("{keep:?}").parse().unwrap(), &options).unwrap();
        let mut rows = vec![row("a", "x", 1), row("a", "y", 3), row("a", "z", 3), row("b", "x", 2)];
        rows.extend((0..300).map(|n| row(&format!("id{n}"), "many", n)));
        load(&table, &rows);
        // Known from now on with keep="last", and as well as before with keep="all".
        load(&table, &[row("a", "x", 5)]);
        let [a, b] = [&[("x", 5), ("y", 3), ("z", 3)][..], &[("x", 2)]].map(values);
        let by_id = Lookup::by(Side::Id);
        assert_eq!(
            found(&table, &["a", "nobody", "b", "a"], by_id),
            [a.clone(), vec![], b, a.clone()]
        );
        assert_eq!(found(&table, &[], by_id), Vec::<Vec<(String, i64)>>::new());
        assert_eq!(found(&table, &["a"], Lookup { limit: 2, ..by_id }), [a[..2].to_vec()]);
        let until = SeenAt::from_millis(THEN + 5).unwrap();
        let window = Window::new(None, Some(until)).unwrap();
        let older = match keep {
            Keep::Last => values(&[("y", 3), ("z", 3)]),
            Keep::All => values(&[("y", 3), ("z", 3), ("x", 1)]),
        };
        assert_eq!(found(&table, &["a"], Lookup { window, ..by_id }), [older]);
        // More keys than are read at once.
        let keys: Vec<String> = (0..300).rev().map(|n| format!("id{n}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let expected: Vec<_> = (0..300).rev().map(|n| values(&[("many", n)])).collect();
        assert_eq!(found(&table, &keys, by_id), expected);
        let many = Lookup { limit: 1, ..Lookup::by(Side::PartnerId) };
        assert_eq!(found(&table, &["many"], many), [values(&[("id299", 299)])]);
        let error = table.lookup_many(&["a", ""], by_id).unwrap_err();
        assert_eq!(error.kind(), idmatch_store::ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_key_takes_a_request_and_a_hot_one_no_more_than_its_limit_needs() {
    const CROWD: i64 = 12_000;
    let mut between = Between::start();
    let _beside = fresh("requests");
    let store = between.open("requests", OPTIONS);
    let name = "t".parse().unwrap();
    let table = store.table_with(&name, &TableOptions::default()).unwrap();
    load(&table, &(0..CROWD).map(|n| row("crowd", &format!("p{n}"), n)).collect::<Vec<_>>());
    load(&table, &[row("single", "p", 0)]);
    let mut requests = |key: &'static str, limit| {
        let (seen, all) = unbounded_channel();
        let pass = RequestReaction::noop().with_feedback_when_performed(seen);
        between.rules(vec![RequestRule(naming(key), pass)], vec![]);
        // A write may have a key counted beside it.
        let tries = (0..3).map(|_| {
            let before = all.len();
            let answers = found(&table, &[key], Lookup { limit, ..Lookup::by(Side::Id) });
            (answers[0].len(), all.len() - before)
        });
        tries.min().unwrap()
    };
    assert_eq!(requests("single", usize::MAX), (1, 1));
    // The bucket and the first page of each of 32 shards; further pages where all answers are wanted.
    assert_eq!(requests("crowd", 5), (5, 33));
    let (answers, all) = requests("crowd", usize::MAX);
    assert!(answers == CROWD as usize && all > 60, "{answers} answers, {all} requests");
}
