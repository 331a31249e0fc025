//! The power fails at every operation, and again while the store recovers: what was
//! acknowledged is there, each batch whole and in both directions, and nothing is missing before
//! something that is there.

use crate::common::{
    Batches, PowerDisk, Question, Row, Unsynced, ask, create, load, name, report, runs, upsert,
};
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Side, Window};
use idmatch_store::{Result, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ROWS: usize = 12;
const STEPS: usize = 36;

/// A memtable takes a few batches, so that there are flushes and merges all the time.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 60,
    chunk_bytes: 500,
    run_bytes: 3_500,
    tranche_bytes: 1_000,
    memtable_bytes: 9_000,
};

fn root() -> PathBuf {
    PathBuf::from("/disk/store")
}

/// The rows of a batch: ids of its own, and a partner_id that all of them have.
fn rows(number: usize) -> Vec<Row> {
    (0..ROWS).map(|row| (format!("{number}-{row}"), format!("all-{number}"), row as i64)).collect()
}

/// Mostly upserts; loads, compactions, backups and reopening between them.
fn step(disk: &PowerDisk, store: &mut EngineStore, number: usize) -> Result<()> {
    let table = create(store, "t", Keep::Last)?;
    match number % 12 {
        5 => load(&*table, &mut Batches::of_rows(&rows(number), 5))?,
        _ => upsert(&*table, &mut Batches::of_rows(&rows(number), 5))?,
    }
    match number % 12 {
        3 => {
            store.close()?;
            *store = open(disk)?;
        }
        8 => table.compact()?,
        10 => drop(store.backup(Path::new("/disk").join(format!("copy-{number}")).as_path())),
        _ => {}
    }
    Ok(())
}

fn open(disk: &PowerDisk) -> Result<EngineStore> {
    EngineStore::open_with(Arc::new(disk.clone()), &root(), LIMITS)
}

/// Does steps until one fails; returns how many batches were acknowledged.
fn run(disk: &PowerDisk, first: usize) -> usize {
    let Ok(mut store) = open(disk) else { return first };
    for number in first..STEPS {
        if step(disk, &mut store, number).is_err() {
            // A batch whose step failed later was acknowledged all the same; not counting it
            // only weakens the test a little.
            return number;
        }
    }
    STEPS
}

/// How many batches there are: the first ones, without a hole, each whole.
fn batches_in(disk: &PowerDisk, place: &str) -> usize {
    let store = open(disk).unwrap_or_else(|e| panic!("{place}: {}", e.chain()));
    let Ok(table) = store.table(&name("t")) else { return 0 };
    assert_eq!(table.verify().unwrap(), [], "{place}");
    let is_there = |number: usize| {
        let of = |side, key: String| {
            ask(&*table, &Question::Answers(side, key, Window::ALL)).unwrap().len()
        };
        let by_partner_id = of(Side::PartnerId, format!("all-{number}"));
        let by_id: usize = (0..ROWS).map(|row| of(Side::Id, format!("{number}-{row}"))).sum();
        assert_eq!(by_id, by_partner_id, "{place}: batch {number}");
        assert!(by_id == 0 || by_id == ROWS, "{place}: {by_id} rows of batch {number}");
        by_id == ROWS
    };
    let there: Vec<bool> = (0..STEPS + 1).map(is_there).collect();
    let count = there.iter().take_while(|is| **is).count();
    assert!(there[count..].iter().all(|is| !is), "{place}: a hole in {there:?}");
    count
}

#[test]
fn the_power_fails_at_every_operation_and_again_in_recovery() {
    let mut points = 0;
    for at in 0u64.. {
        let disk = PowerDisk::new(Path::new("/disk"));
        disk.fail_in(at);
        let acknowledged = run(&disk, 0);
        let is_last = !disk.is_off();
        let torn = (0..runs(2)).map(|turn| Unsynced::Torn(at * (2 + 5 * turn) + 1 + 2 * turn));
        for unsynced in [Unsynced::Lost, Unsynced::Kept].into_iter().chain(torn) {
            let place = format!("operation {at}, {unsynced:?}");
            let there = batches_in(&disk.restarted(unsynced), &place);
            assert!(there >= acknowledged, "{place}: {there} of {acknowledged}");
            assert!(there <= acknowledged + 1, "{place}: {there} of {acknowledged}");
            points += 1;
            // Once more, somewhere in the recovery or in what is done after it.
            let second = disk.restarted(unsynced);
            second.fail_in(at * 31 % 97);
            let then = run(&second, there);
            let place = format!("{place}, then operation {}", at * 31 % 97);
            let again = batches_in(&second.restarted(unsynced), &place);
            assert!(again >= then && again <= then + 1, "{place}: {again} of {then}");
            points += 1;
        }
        if is_last {
            break;
        }
    }
    report(&format!("power: failed at {points} points, 0 acknowledged batches lost"));
    assert!(points > 2_000, "only {points} points were tried");
}
