//! Hot keys: the answers of the reference, and no partition at whose size servers warn.

use crate::common::{Batches, erase, fresh, load, open_with, rows_of, some_of, upsert};
use idmatch_model::{Keep, Pick, SeenAt, Side, TableOptions, Target, Window};
use idmatch_store::{MatchQuery, OpenTables, Table};
use idmatch_testkit::MemoryStore;
use std::time::{Duration, Instant};

const KEYSPACE: &str = "hot";
const FIRST: i64 = 1_700_000_000_000;
const MINUTE: i64 = 60_000;
/// Rows from which a key is hot.
const HOT_ROWS: usize = 1_000;
/// Rows of each hot key.
const CROWD: i64 = 4_800;

type Row = (String, String, i64);

/// A table in the servers, and what it has to answer.
struct Pair {
    table: Table,
    reference: Table,
}

impl Pair {
    fn load(&self, rows: &[Row]) {
        load(&self.table, rows);
        load(&self.reference, rows);
    }

    fn upsert(&self, rows: &[Row]) {
        rows.chunks(250).for_each(|rows| upsert(&self.table, rows));
        upsert(&self.reference, rows);
    }

    fn erase(&self, target: Target, at: i64) {
        let targets = [target];
        let erased = erase(&self.table, &targets, at);
        assert_eq!(erased, erase(&self.reference, &targets, at), "{targets:?}");
    }

    /// Asks for everything there is about some keys.
    fn check(&self, when: &str) {
        let half = FIRST + 5_000 * MINUTE;
        let half = SeenAt::from_millis(half).unwrap();
        let windows = [
            Window::ALL,
            Window::new(Some(half), None).unwrap(),
            Window::new(None, Some(half)).unwrap(),
        ];
        let asked = [(Side::Id, "crowd"), (Side::PartnerId, "plaza"), (Side::Id, "few")];
        for window in windows {
            for (by, key) in asked {
                let [here, right] =
                    [&self.table, &self.reference].map(|table| answers(table, by, key, window));
                assert_eq!(here.len(), right.len(), "{when}: {by:?} {key} {window:?}");
                assert!(here == right, "{when}: {by:?} {key} {window:?}");
            }
            for (by, pick) in [(Side::Id, Pick::All), (Side::PartnerId, Pick::Latest)] {
                let [here, right] = [&self.table, &self.reference]
                    .map(|table| matched(table, MatchQuery { by, pick, window, positions: false }));
                assert_eq!(here.len(), right.len(), "{when}: match by {by:?} {window:?}");
                assert!(here == right, "{when}: match by {by:?} {window:?}");
            }
        }
        for n in (0..CROWD).step_by(1_234) {
            for (id, partner_id) in [
                ("crowd", format!("p{n}").as_str()),
                (&format!("i{n}"), "plaza"),
                ("crowd", "plaza"),
            ] {
                let [here, right] = [&self.table, &self.reference].map(|table| {
                    (
                        table.last_seen(id, partner_id).unwrap(),
                        table.history(id, partner_id).unwrap(),
                    )
                });
                assert_eq!(here, right, "{when}: {id} {partner_id}");
            }
        }
        assert_eq!(self.table.verify().unwrap(), [], "{when}");
    }
}

fn answers(table: &Table, by: Side, key: &str, window: Window) -> Vec<(String, SeenAt)> {
    let answers = table.answers(by, key, window).unwrap();
    answers.of(0).map(|(value, date)| (value.to_owned(), date)).collect()
}

/// The rows of a match of the hot key (twice), some others, and one that nobody has.
fn matched(table: &Table, query: MatchQuery) -> Vec<Row> {
    let hot_key = match query.by {
        Side::Id => "crowd",
        Side::PartnerId => "plaza",
    };
    let mut population: Vec<String> = vec![hot_key.to_owned(), "nobody".into(), hot_key.to_owned()];
    population.extend((0..100).flat_map(|n| [format!("i{n}"), format!("p{n}")]));
    let result = table.match_population(&mut Batches::of_ids(&population), query).unwrap();
    let mut rows = rows_of(|sink| result.write(sink));
    assert_eq!(result.counts().rows, rows.len() as u64);
    assert_eq!(result.counts().population, population.len() as u64);
    rows.sort_unstable();
    rows
}

fn pair(keyspace: &str, keep: Keep) -> Pair {
    let options = TableOptions { keep, retention: None };
    let name = "t".parse().unwrap();
    let store = open_with(keyspace, &format!("&hot_key_rows={HOT_ROWS}"));
    let reference = MemoryStore::new().table_with(&name, &options).unwrap();
    Pair { table: store.table_with(&name, &options).unwrap(), reference }
}

/// A row of the hot id or partner_id, seen in a minute that is mixed up.
fn crowd(n: i64) -> Row {
    ("crowd".into(), format!("p{n}"), FIRST + n * 7_919 % 10_007 * MINUTE)
}

fn plaza(n: i64) -> Row {
    (format!("i{n}"), "plaza".into(), FIRST + n * 7_919 % 10_007 * MINUTE)
}

#[test]
fn keys_with_very_many_rows_are_like_others() {
    for keep in some_of([Keep::Last, Keep::All]) {
        let keyspace = format!("{KEYSPACE}_{keep:?}").to_lowercase();
        let beside = fresh(&keyspace);
        let pair = pair(&keyspace, keep);
        // Some rows come before anybody knows that there will be many.
        pair.upsert(
            &(0..300).map(crowd).chain([("few".into(), "p1".into(), FIRST)]).collect::<Vec<_>>(),
        );
        pair.load(&(0..CROWD).flat_map(|n| [crowd(n), plaza(n)]).collect::<Vec<_>>());
        pair.check("loaded");
        // A bucket has 300 rows of other keys.
        assert!(beside.largest(&keyspace, "by_id") < 2 * HOT_ROWS as i64);
        assert!(beside.largest(&keyspace, "by_partner_id") < 2 * HOT_ROWS as i64);
        let parts = beside.hot_shards(&keyspace);
        // 150 on average.
        assert!(
            parts.len() == 32 && parts.iter().all(|rows| (90..210).contains(rows)),
            "{parts:?}"
        );

        let again = |n: i64| (crowd(n).0, crowd(n).1, FIRST + 20_000 * MINUTE + n);
        pair.upsert(&(0..500).map(again).collect::<Vec<_>>());
        pair.upsert(&(0..500).map(|n| (crowd(n).0, crowd(n).1, FIRST)).collect::<Vec<_>>());
        pair.upsert(&[("crowd".into(), "plaza".into(), FIRST + 5)]);
        pair.check("seen again");

        let pair_of = |n: i64| Target::Pair { id: crowd(n).0, partner_id: crowd(n).1 };
        // One that was seen again since, and one that was not.
        pair.erase(pair_of(1_234), FIRST + 11_000 * MINUTE);
        pair.erase(pair_of(0), FIRST + 11_000 * MINUTE);
        pair.erase(Target::PartnerId("p3702".into()), FIRST + 30_000 * MINUTE);
        pair.erase(Target::PartnerId("plaza".into()), FIRST + 3_000 * MINUTE);
        pair.upsert(&[plaza(2), crowd(1_234), crowd(3_702)]);
        pair.check("erased");

        pair.table.compact().unwrap();
        pair.check("compacted");
        if keep == Keep::Last {
            let rows = answers(&pair.table, Side::Id, "crowd", Window::ALL).len() as i64;
            let stored = beside.hot_rows(&keyspace);
            assert!(stored <= rows, "{stored} rows are kept of {rows} pairs");
        }
        pair.erase(Target::Id("crowd".into()), FIRST + 30_000 * MINUTE);
        pair.check("all erased");
        assert!(answers(&pair.table, Side::Id, "crowd", Window::ALL).is_empty());
    }
}

/// Waits for an event, and fails where it does not come: a bound for broken code, not for slow machines.
fn until(event: &str, mut has_come: impl FnMut() -> bool) {
    let started = Instant::now();
    while !has_come() {
        assert!(started.elapsed() < Duration::from_secs(300), "{event}: not in 300 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_key_that_grows_slowly_becomes_hot() {
    let keyspace = format!("{KEYSPACE}_grows");
    let beside = fresh(&keyspace);
    let pair = pair(&keyspace, Keep::Last);
    // No lookup reads it. One in a thousand of these rows has its key counted, beside the writes.
    pair.upsert(&(0..25_000).map(crowd).collect::<Vec<_>>());
    until("the key is recorded as hot", || beside.hot_records(&keyspace) > 0);
    until("rows of the key go to its shards", || {
        pair.upsert(&[("crowd".into(), "later".into(), FIRST)]);
        beside.hot_rows(&keyspace) > 0
    });
    let (bucket, shards) = (beside.largest(&keyspace, "by_id"), beside.hot_rows(&keyspace));
    pair.upsert(&(25_000..26_000).map(crowd).collect::<Vec<_>>());
    assert_eq!(beside.largest(&keyspace, "by_id"), bucket);
    assert_eq!(beside.hot_rows(&keyspace), shards + 1_000);
    let [here, right] =
        [&pair.table, &pair.reference].map(|table| answers(table, Side::Id, "crowd", Window::ALL));
    assert!(here == right);
}

#[test]
fn a_lookup_and_a_compaction_make_a_key_hot() {
    for way in some_of(["lookup", "compact"]) {
        let keyspace = format!("{KEYSPACE}_{way}");
        let beside = fresh(&keyspace);
        let unaware = open_with(&keyspace, "");
        let options = TableOptions::default();
        let table = unaware.table_with(&"t".parse().unwrap(), &options).unwrap();
        load(&table, &(0..2_000).map(crowd).collect::<Vec<_>>());
        assert_eq!(beside.hot_rows(&keyspace), 0);
        let pair = pair(&keyspace, Keep::Last);
        load(&pair.reference, &(0..2_000).map(crowd).collect::<Vec<_>>());
        match way {
            "lookup" => {
                answers(&pair.table, Side::Id, "crowd", Window::ALL);
            }
            _ => pair.table.compact().unwrap(),
        }
        until(way, || {
            pair.upsert(&[("crowd".into(), "later".into(), FIRST)]);
            beside.hot_rows(&keyspace) > 0
        });
        let right = answers(&pair.reference, Side::Id, "crowd", Window::ALL);
        for table in [&pair.table, &table] {
            assert!(answers(table, Side::Id, "crowd", Window::ALL) == right, "{way}");
        }
    }
}

#[test]
fn hot_key_transition_keeps_acked_rows_visible() {
    let keyspace = format!("{KEYSPACE}_clients");
    let beside = fresh(&keyspace);
    let name = "t".parse().unwrap();
    let tables = [(); 3].map(|()| {
        let store = open_with(&keyspace, "&hot_key_rows=50");
        store.table_with(&name, &TableOptions::default()).unwrap()
    });
    let [notices, writes, reads] = tables.each_ref();
    let add = |n: i64| {
        upsert(writes, &[crowd(n)]);
        // By chance and by this the key is noted, somewhere among the first hundred rows.
        let (first, last) = (crowd(0).1, crowd(n).1);
        for table in [reads, notices] {
            let seen = answers(table, Side::Id, "crowd", Window::ALL);
            assert_eq!(seen.len() as i64, n + 1);
            assert!(seen.iter().any(|row| row.0 == first) && seen.iter().any(|row| row.0 == last));
        }
    };
    (0..300).for_each(add);
    let mut more = 300..;
    until("rows in shards of the key", || {
        more.next().into_iter().for_each(add);
        beside.hot_rows(&keyspace) > 0
    });
    for table in &tables {
        assert_eq!(table.verify().unwrap(), []);
    }
}
