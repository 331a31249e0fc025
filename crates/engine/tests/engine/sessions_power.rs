//! The power fails at every operation of sessions and of changes of the catalog, and again at one of the
//! recovery: each table is as before the change or as after it, both directions alike.

use crate::common::{
    Batches, PowerDisk, Row, Unsynced, count_rows, create, name, observations, places, report,
    runs, stride, upsert,
};
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::Keep;
use idmatch_store::{Call, NewWrite, OpenTables, Result, Store, Table, WriteKey, WriteKind};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 30,
    chunk_bytes: 100,
    run_bytes: 1_000,
    population_bytes: 1_000,
    memtable_bytes: 2_000,
};

/// Which blocks of rows a table has, by its name.
type Tables = BTreeMap<&'static str, Vec<usize>>;

const NAMES: [&str; 3] = ["a", "b", "c"];
const BLOCKS: usize = 12;
const ROWS: usize = 10;

fn block(number: usize) -> Vec<Row> {
    (0..ROWS)
        .map(|row| (format!("i{number}-{row}"), format!("p{number}-{row}"), row as i64))
        .collect()
}

fn batches(number: usize) -> Batches {
    Batches::of_rows(&block(number), 4)
}

fn open(disk: &PowerDisk) -> Result<EngineStore> {
    EngineStore::open_with(Arc::new(disk.clone()), Path::new("/disk/store"), LIMITS)
}

/// Writes a block in a session; what is upserted in the middle of it is told at once.
fn write(
    table: &Table,
    kind: WriteKind,
    number: usize,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let call = Call::default();
    let id = table.snapshot()?.id();
    let key = Some(WriteKey::new(&format!("block {number}"))?);
    let session = table.begin(NewWrite { kind, key, ..NewWrite::load(id) })?;
    if session.outcome().is_some() {
        return Ok(());
    }
    let mut part = session.part()?;
    for batch in observations(&mut batches(number)) {
        part.add(&batch)?;
    }
    let part = part.finish()?;
    meanwhile()?;
    session.commit(&[part], &call).map(drop)
}

/// A step: what it does, and what the tables have after it.
type Step = (fn(&EngineStore, &mut dyn FnMut(Tables)) -> Result<()>, fn(&mut Tables));

fn table(store: &EngineStore, text: &str) -> Result<Table> {
    store.table(&name(text))
}

/// All steps in order. Each is one change of what is acknowledged.
const STEPS: [Step; 10] = [
    (
        |store, _| create(store, "a", Keep::Last).map(drop),
        |tables| drop(tables.insert("a", vec![])),
    ),
    (
        |store, _| write(&table(store, "a")?, WriteKind::Add, 0, || Ok(())),
        |t| t.get_mut("a").unwrap().push(0),
    ),
    (|store, _| upsert(&table(store, "a")?, &mut batches(1)), |t| t.get_mut("a").unwrap().push(1)),
    (
        |store, told| {
            let a = table(store, "a")?;
            write(&a, WriteKind::Replace, 2, || {
                upsert(&a, &mut batches(3))?;
                told(BTreeMap::from([("a", vec![0, 1, 3])]));
                Ok(())
            })
        },
        |tables| drop(tables.insert("a", vec![2, 3])),
    ),
    (|store, _| create(store, "b", Keep::Last).map(drop), |t| drop(t.insert("b", vec![]))),
    (|store, _| upsert(&table(store, "b")?, &mut batches(4)), |t| t.get_mut("b").unwrap().push(4)),
    (
        |store, _| store.swap_tables(&name("a"), &name("b"), &Call::default()),
        |tables| {
            let (a, b) = (tables["a"].clone(), tables["b"].clone());
            tables.extend([("a", b), ("b", a)]);
        },
    ),
    (
        |store, _| store.rename_table(&name("b"), &name("c"), &Call::default()),
        |tables| {
            let b = tables.remove("b").unwrap();
            tables.insert("c", b);
        },
    ),
    (|store, _| table(store, "c")?.compact(), |_| ()),
    (|store, _| store.drop_table(&name("a"), &Call::default()), |t| drop(t.remove("a"))),
];

/// Does steps until one fails. Returns the step that failed, what was acknowledged, and what may be there.
fn run(disk: &PowerDisk, first: usize, mut there: Tables) -> (usize, Vec<Tables>) {
    let Ok(store) = open(disk) else { return (first, vec![there]) };
    for (number, (act, after)) in STEPS.iter().enumerate().skip(first) {
        let mut may_be = vec![there.clone()];
        let mut meanwhile = None;
        let done = act(&store, &mut |told| meanwhile = Some(told));
        let mut changed = there.clone();
        after(&mut changed);
        if done.is_err() {
            if number == 3 {
                // The upsert in the middle may be there before it is acknowledged, and must be after that.
                may_be
                    .extend((meanwhile.is_none()).then(|| BTreeMap::from([("a", vec![0, 1, 3])])));
                if let Some(told) = meanwhile {
                    may_be = vec![told];
                }
            }
            may_be.push(changed);
            return (number, may_be);
        }
        there = changed;
    }
    (STEPS.len(), vec![there])
}

/// What the tables have now.
fn found(disk: &PowerDisk, place: &str) -> Tables {
    let store = open(disk).unwrap_or_else(|e| panic!("{place}: {}", e.chain()));
    let mut all = Tables::new();
    for text in NAMES {
        let Ok(table) = store.table(&name(text)) else { continue };
        assert_eq!(table.verify().unwrap(), [], "{place}, {text}");
        let has = |number: &usize| match count_rows(&table, &block(*number)) {
            0 => false,
            ROWS => true,
            some => panic!("{place}: {some} rows of block {number} in {text}"),
        };
        all.insert(text, (0..BLOCKS).filter(has).collect());
    }
    all
}

#[test]
fn the_power_fails_during_sessions_and_changes_of_the_catalog() {
    let mut points = 0;
    for at in places() {
        let disk = PowerDisk::new(Path::new("/disk"));
        disk.fail_in(at);
        let (step, may_be) = run(&disk, 0, Tables::new());
        let is_last = !disk.is_off();
        let torn = (0..runs(2)).map(|turn| Unsynced::Torn(at * (2 + 5 * turn) + 1 + 2 * turn));
        for unsynced in [Unsynced::Lost, Unsynced::Kept].into_iter().chain(torn) {
            let place = format!("operation {at}, step {step}, {unsynced:?}");
            let there = found(&disk.restarted(unsynced), &place);
            assert!(may_be.contains(&there), "{place}: {there:?} of {may_be:?}");
            points += 1;
            // Once more during the recovery, or in the step that is done again.
            let second = disk.restarted(unsynced);
            second.fail_in(at * 31 % 97);
            let there = match there == *may_be.last().unwrap() && step < STEPS.len() {
                true => run(&second, step + 1, there),
                false => (step, vec![there]),
            };
            let place = format!("{place}, then operation {}", at * 31 % 97);
            let again = found(&second.restarted(unsynced), &place);
            assert!(there.1.contains(&again), "{place}: {again:?} of {:?}", there.1);
            points += 1;
        }
        if is_last {
            break;
        }
    }
    report(&format!("power: sessions failed at {points} points"));
    assert!(points * stride() > 1_000, "only {points} points were tried");
}
