//! A loader is killed at 200 moments: what is left is a store with whole loads in it, all
//! that were acknowledged among them, and no file that nobody needs.

use crate::common::{
    Batches, Child, Question, Row, ask, assert_nothing_leaked, create, load, name, role,
};
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Pick, Side, Window};
use idmatch_store::{MatchQuery, Store, Table};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const KILLS: u64 = 200;
/// A store is used for so many kills, so that loaders also find what killed ones left.
const KILLS_A_STORE: u64 = 5;
const ROWS: usize = 100;
const TABLE: &str = "t";

/// Small enough that every load has files in scratch and several segments.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 200,
    chunk_bytes: 1_000,
    run_bytes: 3_500,
    tranche_bytes: 1_000,
    memtable_bytes: 10_000,
};

/// The rows of a load: its ids are its own, and half of them have the load's hot partner_id.
fn rows(number: usize) -> Vec<Row> {
    let partner = |row: usize| match row % 2 {
        0 => format!("hot-{number}"),
        _ => format!("{:032x}", number * ROWS + row),
    };
    (0..ROWS).map(|row| (format!("{number}-{row}"), partner(row), row as i64)).collect()
}

#[test]
#[ignore = "started by the test of this file as another process"]
fn loader() {
    let role = role().expect("a test of this file starts this with a role");
    let disk = Arc::new(idmatch_engine::disk::OsDisk);
    let store = EngineStore::open_with(disk, &role.store, LIMITS).unwrap();
    let table = create(&store, TABLE, Keep::Last).unwrap();
    let first = table.stats().unwrap().rows as usize / ROWS;
    role.tell("ready");
    for number in first.. {
        load(&*table, &mut Batches::of_rows(&rows(number), 50)).unwrap();
        role.tell(&number.to_string());
    }
}

/// How many loads a table has: the first ones, each whole and in both directions.
fn loads_in(table: &dyn Table) -> usize {
    let mut count = 0;
    while is_there(table, count) {
        count += 1;
    }
    assert!(!is_there(table, count + 1), "load {count} is missing, a later one is there");
    assert_eq!(table.stats().unwrap().rows, (count * ROWS) as u64);
    count
}

fn is_there(table: &dyn Table, number: usize) -> bool {
    let rows = rows(number);
    let population = Arc::new(rows.iter().map(|(id, _, _)| id.clone()).collect());
    let query = MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL };
    let mut matches = ask(table, &Question::Match(population, query)).unwrap().split_off(1);
    let hot = Question::Answers(Side::PartnerId, format!("hot-{number}"), Window::ALL);
    let of_hot = ask(table, &hot).unwrap();
    if matches.is_empty() {
        assert_eq!(of_hot, [], "load {number} is there by partner_id only");
        return false;
    }
    matches.sort_by_key(|row| row.2);
    assert_eq!(matches, rows, "load {number} is there in part");
    assert_eq!(of_hot.len(), ROWS / 2, "load {number} is there by id only");
    true
}

/// What a store has after its writer was killed. `None` before the table was made.
fn inspect(root: &Path) -> Option<usize> {
    let store = EngineStore::open(root).unwrap();
    let loads = store.table(&name(TABLE)).ok().map(|table| {
        assert_eq!(table.verify().unwrap(), []);
        loads_in(&*table)
    });
    assert_nothing_leaked(root);
    loads
}

#[test]
fn a_loader_is_killed() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut dir = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    let (mut begun, mut published) = (0, 0);
    for kill in 0..KILLS {
        if kill % KILLS_A_STORE == 0 {
            dir = tempfile::tempdir().unwrap();
            acknowledged = 0;
        }
        let root = dir.path().join("store");
        let mut child = Child::start("kill::loader", &root);
        // Xorshift: the same moments in every run, as far as the machine is the same.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Most are killed while they load, some before they have opened the store.
        if kill % 8 != 0 {
            assert_eq!(child.hear().as_deref(), Some("ready"));
        }
        std::thread::sleep(Duration::from_micros(random % 30_000));
        child.kill();
        while let Some(told) = child.hear() {
            if let Ok(number) = told.parse::<usize>() {
                acknowledged = number + 1;
            }
        }
        let there = inspect(&root).unwrap_or(0);
        assert!(there >= acknowledged, "load {there} was acknowledged and is gone (kill {kill})");
        assert!(there <= acknowledged + 1, "a load is there that nobody began (kill {kill})");
        begun += 1;
        published += u64::from(there > 0);
        acknowledged = there;
    }
    assert_eq!(begun, KILLS);
    assert!(published > KILLS / 4, "only {published} of {KILLS} had loaded anything");
}
