//! Retention: what it hides is dropped by merges, each direction for itself, and yet both always have
//! the same rows, whatever the retention becomes.

use crate::common::{
    Batches, Child, Question, Random, Row, ask, assert_cancelled, assert_same, create, erase,
    files, hours_later, load, name, role, seed, table_file, upsert, whole,
};
use crate::compaction::open;
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, Period, Side, TableOptions, Target, Window};
use idmatch_store::{Call, OpenTables, Table, now};
use std::path::Path;
use std::sync::Arc;

const DAY: i64 = 86_400_000;

fn days(text: &str) -> Option<Period> {
    Some(Period::parse(text).unwrap())
}

/// Rows of a day or two ago, and of more days ago than the retention of these tests.
fn some_rows(random: &mut Random, today: i64) -> Vec<Row> {
    let row = |_| {
        let age = [1, 2, 40, 50][random.below(4)] * DAY + random.below(10_000) as i64;
        (format!("i{}", random.below(90)), format!("p{}", random.below(90)), today - age)
    };
    (0..60).map(row).collect()
}

fn answers(table: &Table, side: Side, key: &str) -> Vec<Row> {
    ask(table, &Question::Answers(side, key.to_owned(), Window::ALL)).unwrap()
}

/// Every pair and date that is shown, as a direction has it.
fn shown(table: &Table, side: Side) -> Vec<Row> {
    let prefix = if side == Side::Id { 'i' } else { 'p' };
    let of_key = |n| answers(table, side, &format!("{prefix}{n}"));
    let as_stored = |(key, answer, date): Row| match side {
        Side::Id => (key, answer, date),
        Side::PartnerId => (answer, key, date),
    };
    let mut rows: Vec<Row> = (0..90).flat_map(of_key).map(as_stored).collect();
    rows.sort();
    rows
}

#[test]
fn both_directions_have_the_same_rows_whatever_was_merged() {
    for keep in [Keep::Last, Keep::All] {
        let (dir, today) = (tempfile::tempdir().unwrap(), now().millis_i64());
        let store = open(dir.path());
        let options = TableOptions { keep, retention: days("30d") };
        let table = store.table_with(&name("t"), &options).unwrap();
        let mut random = Random::new(seed(), keep as u64);
        let mut young = Vec::new();
        for turn in 0..60 {
            let rows = some_rows(&mut random, today);
            upsert(&table, &mut Batches::of_rows(&rows, 60)).unwrap();
            young.extend(rows.into_iter().filter(|row| row.2 > today - 30 * DAY));
            assert_eq!(table.verify().unwrap(), [], "{keep:?}, turn {turn}");
            match turn {
                20 | 40 => table.set_retention(None).unwrap(),
                30 => table.set_retention(days("45d")).unwrap(),
                _ => continue,
            }
            assert_eq!(table.verify().unwrap(), [], "{keep:?}, another retention, turn {turn}");
            assert_eq!(shown(&table, Side::Id), shown(&table, Side::PartnerId), "{keep:?}");
        }
        for (id, partner_id, seen_at) in &young {
            let last = table.last_seen(id, partner_id).unwrap();
            assert!(last.is_some_and(|last| last.millis_i64() >= *seen_at), "{id} {partner_id}");
        }
        // What is older than any retention there was counts when it comes after that.
        let late = ("i0".to_owned(), "late".to_owned(), today - 400 * DAY);
        load(&table, &mut Batches::of_rows(std::slice::from_ref(&late), 1)).unwrap();
        let before = shown(&table, Side::Id);
        assert!(before.contains(&late));
        table.compact().unwrap();
        assert_eq!(shown(&table, Side::Id), before, "{keep:?}");
        drop(table);
        store.end_writing().unwrap();
        let reopened = open(dir.path());
        let table = reopened.table(&name("t")).unwrap();
        assert_eq!(table.verify().unwrap(), []);
        assert_eq!(shown(&table, Side::Id), before, "{keep:?}");
    }
}

/// A table of which some segments were merged under a retention that it no longer has.
fn merged_under_a_retention(root: &Path, today: i64) -> (EngineStore, Table) {
    let store = open(root);
    let options = TableOptions { keep: Keep::All, retention: days("30d") };
    let table = store.table_with(&name("t"), &options).unwrap();
    let mut random = Random::new(seed(), 7);
    for _ in 0..3 {
        load(&table, &mut Batches::of_rows(&some_rows(&mut random, today), 60)).unwrap();
    }
    // It ends after its first publication.
    let root = root.to_owned();
    let has_watermark = move || {
        let (_, json) = table_file(&root, "t");
        let segments = json["segments"].as_array().unwrap();
        segments.iter().any(|segment| !segment["gone_before"].is_null())
    };
    let call = Call::default().ended_by(Arc::new(has_watermark));
    assert_cancelled(table.with_call(call).compact(), "a compaction");
    table.set_retention(None).unwrap();
    (store, table)
}

#[test]
fn expired_rows_are_no_loss_in_repair() {
    let (dir, today) = (tempfile::tempdir().unwrap(), now().millis_i64());
    let (_store, table) = merged_under_a_retention(dir.path(), today);
    assert_eq!(table.verify().unwrap(), []);
    let before = shown(&table, Side::Id);
    assert_eq!(before, shown(&table, Side::PartnerId));
    let file =
        files(dir.path()).into_iter().find(|file| file.extension().is_some_and(|e| e == "seg"));
    let file = file.unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let repaired = table.repair(false).unwrap();
    assert_eq!((repaired.findings.is_empty(), repaired.lost_at_most), (false, 0));
    assert_eq!(shown(&table, Side::Id), before);
    assert_eq!(shown(&table, Side::PartnerId), before);
}

#[test]
fn an_erasure_counts_what_was_shown() {
    let (dir, today) = (tempfile::tempdir().unwrap(), now().millis_i64());
    let store = open(dir.path());
    let table = create(&store, "t", Keep::Last).unwrap();
    let rows: Vec<Row> = [(40, "p"), (1, "q"), (50, "q")]
        .map(|(age, partner_id)| ("a".to_owned(), partner_id.to_owned(), today - age * DAY))
        .into();
    load(&table, &mut Batches::of_rows(&rows, 3)).unwrap();
    table.set_retention(days("30d")).unwrap();
    let erased = erase(&table, &[Target::Id("a".to_owned())], today).unwrap();
    assert_eq!((erased.by_id, erased.by_partner_id), (1, 1));
    table.set_retention(None).unwrap();
    assert_eq!(answers(&table, Side::Id, "a"), []);
}

/// 90 rows of one to 90 days ago, in segments and memtables: `i{n}` and `p{n % 7}` are `n` days old.
fn one_a_day(store: &EngineStore, keep: Keep) -> Table {
    let (table, today) = (create(store, "t", keep).unwrap(), now().millis_i64());
    let row = |n: i64| (format!("i{n}"), format!("p{}", n % 7), today - n * DAY - DAY / 2);
    let rows: Vec<Row> = (0..90).map(row).collect();
    load(&table, &mut Batches::of_rows(&rows[..30], 30)).unwrap();
    load(&table, &mut Batches::of_rows(&rows[30..60], 30)).unwrap();
    upsert(&table, &mut Batches::of_rows(&rows[60..], 30)).unwrap();
    table
}

/// All answers about the rows of [`one_a_day`].
fn all_answers(table: &Table) -> Vec<(String, Vec<Row>)> {
    let keys = |prefix, count| (0..count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
    let snapshot = table.snapshot().unwrap();
    whole(&*snapshot, [&keys('i', 90), &keys('p', 7)], &[Window::ALL])
}

#[test]
fn what_is_set_back_within_a_day_shows_everything() {
    for keep in [Keep::Last, Keep::All] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let table = one_a_day(&store, keep);
        let before = all_answers(&table);
        for retentions in [&["30d"][..], &["30d", "10d", "60d"], &["1d", "1d"]] {
            for retention in retentions {
                table.set_retention(days(retention)).unwrap();
                table.compact().unwrap();
                let count: usize = retention.trim_end_matches('d').parse().unwrap();
                assert_eq!(shown(&table, Side::Id).len(), count, "{keep:?}, {retention}");
                assert_eq!(shown(&table, Side::Id), shown(&table, Side::PartnerId));
                assert_eq!(table.stats().unwrap().rows, 90, "{keep:?}, {retention}");
            }
            table.set_retention(None).unwrap();
            assert_same(&all_answers(&table), &before, &format!("{keep:?}, {retentions:?}"));
            table.compact().unwrap();
            assert_same(&all_answers(&table), &before, &format!("{keep:?}, compacted"));
        }
        assert_eq!(table.verify().unwrap(), []);
    }
}

#[test]
fn the_longest_retention_of_a_day_decides_what_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let options = TableOptions { keep: Keep::All, retention: days("60d") };
    store.table_with(&name("t"), &options).unwrap().set_retention(days("20d")).unwrap();
    let today = now().millis_i64();
    let row = |n: i64| (format!("i{n}"), format!("p{n}"), today - n * DAY - DAY / 2);
    let rows: Vec<Row> = (0..90).map(row).collect();
    let table = store.table(&name("t")).unwrap();
    load(&table, &mut Batches::of_rows(&rows, 90)).unwrap();
    table.compact().unwrap();
    assert_eq!(table.stats().unwrap().rows, 60);
    table.set_retention(None).unwrap();
    let mut expected = rows[..60].to_vec();
    expected.sort();
    assert_eq!(shown(&table, Side::Id), expected);
    assert_eq!(shown(&table, Side::PartnerId), expected);
    // What is written after a change is shown by the new retention.
    load(&table, &mut Batches::of_rows(&rows[60..], 90)).unwrap();
    table.compact().unwrap();
    let mut expected = rows;
    expected.sort();
    assert_eq!(shown(&table, Side::Id), expected);
    assert_eq!(shown(&table, Side::PartnerId), expected);
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn compacts_later() {
    let role = role();
    let store = open(&role.store);
    let table = store.table(&name("t")).unwrap();
    table.compact().unwrap();
    role.tell(&table.stats().unwrap().rows.to_string());
    table.set_retention(None).unwrap();
    assert_eq!(shown(&table, Side::Id), shown(&table, Side::PartnerId));
    role.tell(&shown(&table, Side::Id).len().to_string());
    assert_eq!(table.verify().unwrap(), []);
    store.end_writing().unwrap();
}

#[test]
fn compactions_drop_what_was_hidden_for_a_day() {
    for (hours, left) in [(23, 90), (25, 29)] {
        let (dir, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = open(dir.path());
        let table = one_a_day(&store, Keep::Last);
        table.set_retention(days("30d")).unwrap();
        table.compact().unwrap();
        assert_eq!(table_file(dir.path(), "t").1["kept"].as_array().unwrap().len(), 1);
        store.end_writing().unwrap();
        drop((table, store));
        let later = hours_later(tools.path(), hours);
        let later = [later[0].as_str(), &later[1]];
        let mut child = Child::start_within(&later, "retention::compacts_later", dir.path());
        let told = [child.hear(), child.hear()].map(Option::unwrap);
        assert_eq!(told, [left, left].map(|count: u32| count.to_string()), "{hours} hours later");
        child.finish();
        // The one of 30 days is kept since it was changed back.
        let (_, json) = table_file(dir.path(), "t");
        let kept = json["kept"].as_array().unwrap();
        assert_eq!(kept.iter().all(|one| one["retention"] == "30d"), hours > 24, "{json}");
    }
}
