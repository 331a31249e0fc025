//! The power fails at every operation of a workload on several tables, and again while the store recovers: the
//! tables that are there, and all their rows, are those after the acknowledged steps, or one step more.

use crate::common::{
    Batches, PowerDisk, Row, Unsynced, erase, few_places, load, name, report, scanned, seed,
    stride, upsert,
};
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, TableOptions, Target, Window};
use idmatch_store::{Call, Durability, OpenTables, Result, ScanRanges, Store, Table};
use idmatch_testkit::MemoryStore;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const FOLDER: &str = "/disk";
const STORE: &str = "/disk/store";
const BATCH_ROWS: i64 = 12;
const ERASED_UNTIL: i64 = 100;

/// A memtable takes a few batches of all tables, so that there are flushes and compactions all the time.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 60,
    chunk_bytes: 500,
    run_bytes: 3_500,
    population_bytes: 1_000,
    memtable_bytes: 9_000,
};

/// One change of a store, whole or not at all. A batch is named by a number, which may be in several tables.
#[derive(Debug, Clone, Copy)]
enum Step {
    Create(&'static str, Keep),
    Upsert(&'static str, u32),
    Load(&'static str, u32),
    Erase(&'static str, u32),
    Compact(&'static str),
    Rename(&'static str, &'static str),
    Swap(&'static str, &'static str),
    Drop(&'static str),
    Reopen,
}
use Step::{Compact, Create, Drop, Erase, Load, Rename, Reopen, Swap, Upsert};

/// Each table has batches that others have, too, of which one erases some.
const ALL_CHANGES: [Step; 42] = [
    Create("a", Keep::Last),
    Create("b", Keep::All),
    Create("c", Keep::Last),
    Upsert("a", 1),
    Upsert("b", 1),
    Upsert("c", 2),
    Load("b", 3),
    Erase("a", 1),
    // Late, and hidden in this table alone.
    Upsert("a", 1),
    Upsert("a", 4),
    Upsert("b", 4),
    Compact("b"),
    Rename("c", "d"),
    Upsert("d", 5),
    Reopen,
    // The name is free; the table that had it keeps its rows.
    Create("c", Keep::Last),
    Load("c", 2),
    Erase("d", 2),
    Upsert("c", 5),
    Swap("a", "b"),
    Upsert("a", 6),
    Upsert("b", 6),
    Drop("d"),
    // A table that takes a name takes the erasures that were left there.
    Create("d", Keep::All),
    Upsert("d", 2),
    Upsert("d", 7),
    Compact("a"),
    Upsert("c", 7),
    Load("a", 8),
    Drop("c"),
    Rename("b", "c"),
    Upsert("c", 9),
    Upsert("c", 1),
    Erase("a", 4),
    Reopen,
    Upsert("a", 9),
    Upsert("d", 9),
    Compact("d"),
    Load("c", 10),
    Upsert("a", 10),
    Erase("d", 9),
    Upsert("d", 10),
];

/// The creation of a table does not sync the upserts before it, so all tables are made first.
const UPSERTS_THAT_CAN_WAIT: [Step; 26] = [
    Create("a", Keep::Last),
    Create("b", Keep::All),
    Create("c", Keep::Last),
    Upsert("a", 1),
    Upsert("b", 1),
    Upsert("c", 1),
    Upsert("a", 2),
    Upsert("b", 3),
    Load("c", 2),
    Upsert("b", 4),
    Upsert("a", 4),
    Erase("b", 1),
    Upsert("b", 1),
    Upsert("c", 4),
    Upsert("a", 5),
    Compact("a"),
    Upsert("c", 5),
    Upsert("b", 5),
    Rename("c", "d"),
    Upsert("d", 6),
    Upsert("a", 6),
    Swap("a", "b"),
    Upsert("a", 7),
    Upsert("b", 7),
    Reopen,
    Upsert("d", 8),
];

/// The rows of a batch: ids of its own, and a partner_id that all of them have.
fn batch(number: u32) -> Vec<Row> {
    let row = |row: i64| (format!("{number}-{row}"), format!("all-{number}"), row);
    (0..BATCH_ROWS).map(row).collect()
}

impl Step {
    fn apply(self, store: &Arc<dyn Store>) -> Result<()> {
        let call = Call::default();
        let table = |table| Table::named(store, &name(table));
        match self {
            Create(table, keep) => {
                let options = TableOptions { keep, retention: None };
                store.create_table(&name(table), &options, None, &call).map(drop)
            }
            Upsert(to, number) => upsert(&table(to), &mut Batches::of_rows(&batch(number), 5)),
            Load(to, number) => load(&table(to), &mut Batches::of_rows(&batch(number), 5)),
            Erase(from, number) => {
                let target = Target::PartnerId(format!("all-{number}"));
                erase(&table(from), &[target], ERASED_UNTIL).map(drop)
            }
            Rename(from, to) => store.rename_table(&name(from), &name(to), &call),
            Swap(one, other) => store.swap_tables(&name(one), &name(other), &call),
            Drop(table) => store.drop_table(&name(table), &call),
            Compact(of) => table(of).compact(),
            Reopen => store.close(),
        }
    }

    /// Whether all upserts before are durable after it.
    fn syncs(self) -> bool {
        !matches!(self, Create(..) | Upsert(..))
    }
}

/// The tables that are there, and all rows of each.
type State = BTreeMap<String, Vec<Row>>;

fn state(store: &Arc<dyn Store>) -> State {
    let (snapshot, call) = (store.snapshot(&Call::default()).unwrap(), Call::default());
    let rows = |table| {
        let table = snapshot.table_named(table, &call).unwrap();
        scanned(&*table, &ScanRanges::all(), Window::ALL)
    };
    let names = snapshot.tables(&call).unwrap();
    names.iter().map(|name| (name.as_str().to_owned(), rows(name))).collect()
}

/// What the reference has before the first step, and after each.
fn states(steps: &[Step]) -> Vec<State> {
    let reference: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut states = vec![state(&reference)];
    for step in steps {
        if !matches!(step, Compact(_) | Reopen) {
            step.apply(&reference).unwrap();
        }
        states.push(state(&reference));
    }
    states
}

fn open(disk: &PowerDisk, durability: Durability) -> Result<Arc<dyn Store>> {
    let store = EngineStore::open_with(Arc::new(disk.clone()), Path::new(STORE), LIMITS)?;
    store.set_durability(durability);
    Ok(Arc::new(store))
}

/// Does steps until one fails; returns how many must be there, and how many were acknowledged.
fn run(disk: &PowerDisk, steps: &[Step], first: usize, durability: Durability) -> (usize, usize) {
    let Ok(mut store) = open(disk, durability) else { return (first, first) };
    let mut durable = first;
    for (number, step) in steps.iter().enumerate().skip(first) {
        let done = step.apply(&store).and_then(|()| match step {
            Reopen => open(disk, durability).map(|opened| store = opened),
            _ => Ok(()),
        });
        if done.is_err() {
            return (durable, number);
        }
        if durability == Durability::Always || step.syncs() {
            durable = number + 1;
        }
    }
    (durable, steps.len())
}

/// After how many steps the store is as it is found, which must be one of these numbers.
fn steps_in(
    disk: &PowerDisk,
    states: &[State],
    allowed: RangeInclusive<usize>,
    place: &str,
) -> usize {
    let opened = open(disk, Durability::Always);
    let store = opened.unwrap_or_else(|e| panic!("{place}: {}", e.chain()));
    for table in store.tables().unwrap() {
        assert_eq!(store.table(&table).unwrap().verify().unwrap(), [], "{place}, {table}");
    }
    let found = state(&store);
    let mut last = allowed.clone().rev().filter(|number| *number < states.len());
    last.find(|number| states[*number] == found).unwrap_or_else(|| {
        let elsewhere = states.iter().position(|state| *state == found);
        let counts = |state: &State| -> Vec<(String, usize)> {
            state.iter().map(|(name, rows)| (name.clone(), rows.len())).collect()
        };
        let first = counts(&states[*allowed.start()]);
        panic!(
            "{place}: {:?} is not after {allowed:?} steps, but after {elsewhere:?}; after the first \
             of them it is {first:?}",
            counts(&found)
        )
    })
}

fn fail_everywhere(steps: &[Step], durability: Durability) {
    let (mut points, states) = (0, states(steps));
    for at in few_places() {
        let disk = PowerDisk::new(Path::new(FOLDER));
        disk.fail_in(at);
        let (durable, acknowledged) = run(&disk, steps, 0, durability);
        let is_last = !disk.is_off();
        for unsynced in [Unsynced::Lost, Unsynced::Kept, Unsynced::Torn(at * 2 + 1)] {
            let place = format!("operation {at}, {unsynced:?}, seed {}", seed());
            let allowed = durable..=acknowledged + 1;
            let there = steps_in(&disk.restarted(unsynced), &states, allowed, &place);
            // Once more, somewhere in the recovery or in what is done after it.
            let (second, then_at) = (disk.restarted(unsynced), at * 31 % 97);
            second.fail_in(then_at);
            let (durable, then) = run(&second, steps, there, durability);
            let place = format!("{place}, after {there} steps, then operation {then_at}");
            steps_in(&second.restarted(unsynced), &states, durable..=then + 1, &place);
            points += 2;
        }
        if is_last {
            break;
        }
    }
    report(&format!(
        "power: failed at {points} points of a workload on several tables, 0 acknowledged changes \
         lost, seed {}",
        seed()
    ));
    assert!(points * stride() > 1_000, "only {points} points were tried");
}

#[test]
fn the_power_fails_while_several_tables_change() {
    fail_everywhere(&ALL_CHANGES, Durability::Always);
}

#[test]
fn the_power_fails_while_upserts_of_several_tables_can_wait() {
    let can_wait = Durability::Interval(Duration::from_secs(3_600));
    fail_everywhere(&UPSERTS_THAT_CAN_WAIT, can_wait);
}

/// The script itself: what it leaves, worked out by hand.
#[test]
fn the_steps_leave_what_they_say() {
    let batches = |numbers: &[u32]| {
        let mut rows: Vec<Row> = numbers.iter().flat_map(|number| batch(*number)).collect();
        rows.sort();
        rows
    };
    let last = states(&ALL_CHANGES).pop().unwrap();
    // The table that is `a` was `b`, and took the erasure of batch 1 with the name.
    let a = batches(&[3, 6, 8, 9, 10]);
    // The table that is `c` was `a`: batch 1 stays hidden there.
    let c = batches(&[4, 6, 9, 10]);
    // Batch 2 was erased at this name, by the table before.
    let d = batches(&[7, 10]);
    let expected = [("a", a), ("c", c), ("d", d)].map(|(name, rows)| (name.to_owned(), rows));
    assert_eq!(last, State::from(expected));
}
