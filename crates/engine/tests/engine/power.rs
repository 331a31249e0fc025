//! The power fails at every operation, and again while the store recovers: what was
//! acknowledged is there, each batch whole and in both directions, nothing is missing before
//! something that is there, and what was erased stays away.

use crate::common::{
    Batches, NoRejects, PowerDisk, Question, Row, Unsynced, ask, create, erase, few_places,
    few_stride, load, name, report, runs,
};
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Side, Target, Window};
use idmatch_store::{Admin, Call, Durability, Ingest, OpenTables, Result, Table, now};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const ROWS: usize = 12;
const STEPS: usize = 36;

/// A memtable takes a few batches, so that there are flushes and merges all the time.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 60,
    chunk_bytes: 500,
    run_bytes: 3_500,
    population_bytes: 1_000,
    memtable_bytes: 9_000,
};

fn root() -> PathBuf {
    PathBuf::from("/disk/store")
}

/// The rows of a batch: ids of its own, and a partner_id that all of them have.
fn rows(number: usize) -> Vec<Row> {
    (0..ROWS).map(|row| (format!("{number}-{row}"), format!("all-{number}"), row as i64)).collect()
}

/// What a step erases again, whole.
fn doomed(number: usize) -> Vec<Row> {
    (0..ROWS).map(|row| (format!("doomed-{row}"), format!("doomed-{number}"), row as i64)).collect()
}

/// Which of the batches are durable when they are acknowledged, if the others can wait.
fn cannot_wait(number: usize) -> bool {
    number.is_multiple_of(4)
}

fn upsert(table: &Table, number: usize, rows: &[Row]) -> Result<()> {
    let durability = cannot_wait(number).then_some(Durability::Always);
    let (mut source, mut rejects) = (Batches::of_rows(rows, 5), NoRejects);
    table.upsert(&Ingest::new(true, now(), &mut rejects).judged(&mut source), durability)
}

/// Mostly upserts; loads, erasures, compactions, backups and reopening between them.
fn step(disk: &PowerDisk, store: &mut EngineStore, number: usize) -> Result<()> {
    let table = create(store, "t", Keep::Last)?;
    match number % 12 {
        5 => load(&table, &mut Batches::of_rows(&rows(number), 5))?,
        _ => upsert(&table, number, &rows(number))?,
    }
    match number % 12 {
        3 => {
            store.end_writing()?;
            let durability = store.durability();
            *store = open(disk)?;
            store.set_durability(durability);
        }
        6 => {
            upsert(&table, number, &doomed(number))?;
            erase(&table, &[Target::PartnerId(format!("doomed-{number}"))], 100)?;
        }
        8 => table.compact()?,
        10 => {
            let copy = Path::new("/disk").join(format!("copy-{number}"));
            drop(store.backup(&copy, &Call::default()));
        }
        _ => {}
    }
    Ok(())
}

fn open(disk: &PowerDisk) -> Result<EngineStore> {
    EngineStore::open_with(Arc::new(disk.clone()), &root(), LIMITS)
}

/// Does steps until one fails; returns how many batches must be there, and how many were
/// acknowledged: more only if some of them can wait.
fn run(disk: &PowerDisk, first: usize, durability: Durability) -> (usize, usize) {
    let Ok(mut store) = open(disk) else { return (first, first) };
    store.set_durability(durability);
    let mut durable = first;
    for number in first..STEPS {
        if step(disk, &mut store, number).is_err() {
            // A batch whose step failed later was acknowledged all the same; not counting it
            // only weakens the test a little.
            return (durable, number);
        }
        // A load is durable, and so is all that was upserted when a store is closed.
        if durability == Durability::Always || cannot_wait(number) || number % 12 == 3 {
            durable = number + 1;
        }
    }
    (durable, STEPS)
}

/// How many batches there are: the first ones, without a hole, each whole.
fn batches_in(disk: &PowerDisk, place: &str, erased: impl Fn(usize) -> bool) -> usize {
    let store = open(disk).unwrap_or_else(|e| panic!("{place}: {}", e.chain()));
    let Ok(table) = store.table(&name("t")) else { return 0 };
    assert_eq!(table.verify().unwrap(), [], "{place}");
    let of =
        |side, key: String| ask(&table, &Question::Answers(side, key, Window::ALL)).unwrap().len();
    let mut doomed = 0;
    for number in (0..STEPS).filter(|number| number % 12 == 6) {
        let there = of(Side::PartnerId, format!("doomed-{number}"));
        assert!(there == 0 || there == ROWS, "{place}: {there} rows of doomed-{number}");
        assert!(there == 0 || !erased(number), "{place}: doomed-{number} is back");
        doomed += there;
    }
    let by_id: usize = (0..ROWS).map(|row| of(Side::Id, format!("doomed-{row}"))).sum();
    assert_eq!(by_id, doomed, "{place}: the doomed by id");
    let is_there = |number: usize| {
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
    fail_everywhere(Durability::Always);
}

#[test]
fn the_power_fails_while_upserts_can_wait() {
    fail_everywhere(Durability::Interval(Duration::from_secs(3_600)));
}

fn fail_everywhere(durability: Durability) {
    let mut points = 0;
    for at in few_places() {
        let disk = PowerDisk::new(Path::new("/disk"));
        disk.fail_in(at);
        let (durable, acknowledged) = run(&disk, 0, durability);
        let is_last = !disk.is_off();
        let torn = (0..runs(2)).map(|turn| Unsynced::Torn(at * (2 + 5 * turn) + 1 + 2 * turn));
        for unsynced in [Unsynced::Lost, Unsynced::Kept].into_iter().chain(torn) {
            let place = format!("operation {at}, {unsynced:?}");
            let there = batches_in(&disk.restarted(unsynced), &place, |n| n < acknowledged);
            assert!(there >= durable, "{place}: {there} of {durable}");
            assert!(there <= acknowledged + 1, "{place}: {there} of {acknowledged}");
            points += 1;
            // Once more, somewhere in the recovery or in what is done after it.
            let second = disk.restarted(unsynced);
            second.fail_in(at * 31 % 97);
            let (durable, then) = run(&second, there, durability);
            let place = format!("{place}, then operation {}", at * 31 % 97);
            let erased = |n| n < acknowledged || (there..then).contains(&n);
            let again = batches_in(&second.restarted(unsynced), &place, erased);
            assert!(again >= durable && again <= then + 1, "{place}: {again} of {durable}..{then}");
            points += 1;
        }
        if is_last {
            break;
        }
    }
    report(&format!("power: failed at {points} points, 0 acknowledged batches lost"));
    assert!(points * few_stride() > 2_000, "only {points} points were tried");
}
