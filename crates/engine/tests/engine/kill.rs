//! A process that loads, or upserts, is killed at many moments: what is left is a store with
//! whole batches in it, all that were acknowledged among them, and no file that nobody needs.

use crate::common::{
    Batches, Child, NumberedRows, assert_nothing_leaks_for_long, create, is_long, load, name,
    report, role, runs, upsert,
};
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::Keep;
use idmatch_store::OpenTables;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A store is used for so many kills, so that processes also find what killed ones left.
const KILLS_A_STORE: u64 = 5;
const ROWS: NumberedRows = NumberedRows(100);
const TABLE: &str = "t";

/// Small enough that every load has files in scratch and several segments, and that a memtable
/// takes one batch.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 200,
    chunk_bytes: 1_000,
    run_bytes: 3_500,
    population_bytes: 1_000,
    memtable_bytes: 50_000,
};

fn write_batches(put: impl Fn(&idmatch_store::Table, &mut Batches) -> idmatch_store::Result<()>) {
    let role = role();
    let disk = Arc::new(idmatch_engine::disk::OsDisk);
    let store = EngineStore::open_with(disk, &role.store, LIMITS).unwrap();
    let table = create(&store, TABLE, Keep::Last).unwrap();
    let first = (0..).find(|number| !ROWS.are_in(&table, *number)).unwrap();
    role.tell("ready");
    for number in first.. {
        put(&table, &mut Batches::of_rows(&ROWS.batch(number), 50)).unwrap();
        role.tell(&number.to_string());
    }
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn loader() {
    write_batches(|table, rows| load(table, rows));
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn upserter() {
    write_batches(|table, rows| upsert(table, rows));
}

/// How many batches a store has after its writer was killed: the first ones, each whole and in
/// both directions. None before the table was made.
fn inspect(root: &Path) -> usize {
    let store = EngineStore::open(root).unwrap();
    let count = store.table(&name(TABLE)).map_or(0, |table| {
        assert_eq!(table.verify().unwrap(), []);
        let count = (0..).find(|number| !ROWS.are_in(&table, *number)).unwrap();
        assert!(!ROWS.are_in(&table, count + 1), "batch {count} is missing, a later one is there");
        count
    });
    assert_nothing_leaks_for_long(root);
    count
}

fn kill_often(role: &str, kills: u64) {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut dir = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    let mut written = 0;
    for kill in 0..kills {
        if kill % KILLS_A_STORE == 0 {
            dir = tempfile::tempdir().unwrap();
            acknowledged = 0;
        }
        let root = dir.path().join("store");
        let mut child = Child::start(role, &root);
        // Xorshift: the same moments in every run, as far as the machine is the same.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut hear = |child: &mut Child| {
            let told = child.hear();
            if let Some(Ok(number)) = told.as_deref().map(str::parse::<usize>) {
                acknowledged = number + 1;
            }
            told
        };
        // Most are killed while they write, some before they have opened the store.
        if kill % 8 != 0 {
            assert_eq!(hear(&mut child).as_deref(), Some("ready"));
            // On a busy machine too, some have written something.
            (0..random % 3).for_each(|_| drop(hear(&mut child)));
        }
        std::thread::sleep(Duration::from_micros(random % 30_000));
        child.kill();
        while hear(&mut child).is_some() {}
        let there = inspect(&root);
        assert!(there >= acknowledged, "batch {there} was acknowledged and is gone (kill {kill})");
        assert!(there <= acknowledged + 1, "a batch is there that nobody began (kill {kill})");
        written += u64::from(there > 0);
        acknowledged = there;
    }
    report(&format!("{role}: {kills} kills, 0 acknowledged batches lost"));
    assert!(!is_long() || written > kills / 4, "only {written} of {kills} had written anything");
}

#[test]
fn a_loader_is_killed() {
    kill_often("kill::loader", runs(20));
}

#[test]
fn an_upserter_is_killed() {
    kill_often("kill::upserter", runs(10));
}
