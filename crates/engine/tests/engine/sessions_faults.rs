//! Every operation on the disk fails during sessions and changes of the catalog, and so does the power, there
//! and again at one of the recovery: each table is as before the change or as after it, both directions alike.

use crate::common::{
    Batches, Child, Fault, FaultyDisk, PowerDisk, Row, Unsynced, assert_nothing_leaks_for_long,
    count_rows, create, name, observations, places, report, role, runs, stride, upsert,
};
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::Keep;
use idmatch_store::{
    Call, NewWrite, OpenTables, Result, Sharing, Store, Table, WriteKey, WriteKind,
};
use std::collections::BTreeMap;
use std::io::ErrorKind;
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

fn powered(disk: &PowerDisk) -> Result<EngineStore> {
    EngineStore::open_with(Arc::new(disk.clone()), Path::new("/disk/store"), LIMITS)
}

/// Writes a block in a session; what is upserted in the middle of it is told at once.
fn write(
    (store, table): (&EngineStore, &Table),
    (kind, sharing): (WriteKind, Sharing),
    number: usize,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let call = Call::default();
    let id = table.snapshot()?.id();
    let key = Some(WriteKey::new(&format!("block {number}"))?);
    let session = table.begin(NewWrite { kind, key, sharing, ..NewWrite::load(id) })?;
    if session.outcome().is_some() {
        return Ok(());
    }
    let staging = match sharing {
        Sharing::Shared => store.resume(session.address(), &call)?,
        _ => session,
    };
    let mut part = staging.part(Some(0))?;
    for batch in observations(&mut batches(number)) {
        part.add(&batch)?;
    }
    let part = part.finish(0)?;
    meanwhile()?;
    staging.commit(&[part], &call).map(drop)
}

/// A step: what it does, and what the tables have after it.
type Step = (fn(&EngineStore, &mut dyn FnMut(Tables)) -> Result<()>, fn(&mut Tables));

fn table(store: &EngineStore, text: &str) -> Result<Table> {
    store.table(&name(text))
}

/// All steps in order. Each is one change of what is acknowledged.
const STEPS: [Step; 12] = [
    (
        |store, _| create(store, "a", Keep::Last).map(drop),
        |tables| drop(tables.insert("a", vec![])),
    ),
    (
        |store, _| {
            let a = table(store, "a")?;
            write((store, &a), (WriteKind::Add, Sharing::Locked), 0, || Ok(()))
        },
        |t| t.get_mut("a").unwrap().push(0),
    ),
    (|store, _| upsert(&table(store, "a")?, &mut batches(1)), |t| t.get_mut("a").unwrap().push(1)),
    (
        |store, told| {
            let a = table(store, "a")?;
            write((store, &a), (WriteKind::Replace, Sharing::Local), 2, || {
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
    (
        |store, _| {
            let c = table(store, "c")?;
            write((store, &c), (WriteKind::Add, Sharing::Shared), 5, || Ok(()))
        },
        |t| t.get_mut("c").unwrap().push(5),
    ),
    (
        |store, _| {
            let c = table(store, "c")?;
            write((store, &c), (WriteKind::Replace, Sharing::Shared), 6, || Ok(()))
        },
        |tables| drop(tables.insert("c", vec![6])),
    ),
    (|store, _| store.drop_table(&name("a"), &Call::default()), |t| drop(t.remove("a"))),
];

/// Does steps until one fails. Returns the step that failed, what was acknowledged, and what may be there.
fn run(opened: Result<EngineStore>, first: usize, mut there: Tables) -> (usize, Vec<Tables>) {
    let Ok(store) = opened else { return (first, vec![there]) };
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
fn found(opened: Result<EngineStore>, place: &str) -> Tables {
    let store = opened.unwrap_or_else(|e| panic!("{place}: {}", e.chain()));
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
        let (step, may_be) = run(powered(&disk), 0, Tables::new());
        let is_last = !disk.is_off();
        let torn = (0..runs(2)).map(|turn| Unsynced::Torn(at * (2 + 5 * turn) + 1 + 2 * turn));
        for unsynced in [Unsynced::Lost, Unsynced::Kept].into_iter().chain(torn) {
            let place = format!("operation {at}, step {step}, {unsynced:?}");
            let there = found(powered(&disk.restarted(unsynced)), &place);
            assert!(may_be.contains(&there), "{place}: {there:?} of {may_be:?}");
            points += 1;
            // Once more during the recovery, or in the step that is done again.
            let second = disk.restarted(unsynced);
            second.fail_in(at * 31 % 97);
            let is_done = may_be.len() > 1 && there == *may_be.last().unwrap();
            let there = match is_done && step < STEPS.len() {
                true => run(powered(&second), step + 1, there),
                false => (step, vec![there]),
            };
            let place = format!("{place}, then operation {}", at * 31 % 97);
            let again = found(powered(&second.restarted(unsynced)), &place);
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

#[test]
fn an_operation_fails_during_sessions_and_changes_of_the_catalog() {
    let mut failures = 0;
    for at in 0u64.. {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        let fault = Fault::Error(ErrorKind::PermissionDenied);
        let disk = Arc::new(FaultyDisk::new(at..at + 1, fault));
        let (step, may_be) =
            run(EngineStore::open_with(disk.clone(), &root, LIMITS), 0, Tables::new());
        let place = format!("operation {at}, step {step}");
        let there = found(EngineStore::open(&root), &place);
        assert!(may_be.contains(&there), "{place}: {there:?} of {may_be:?}");
        assert_nothing_leaks_for_long(&root);
        if !disk.was_hit() {
            assert!(at > 200, "only {at} operations were counted");
            break;
        }
        failures += u32::from(step < STEPS.len());
    }
    report(&format!("faults: sessions failed in {failures} runs"));
    assert!(failures > 100, "{failures} runs failed");
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn worker() {
    let role = role();
    let at: u64 = role.hear().unwrap().parse().unwrap();
    let disk = Arc::new(FaultyDisk::new(at..at + 1, Fault::Abort));
    let store = EngineStore::open_with(disk, &role.store, LIMITS).unwrap();
    for (number, (act, _)) in STEPS.iter().enumerate() {
        act(&store, &mut |_| role.tell("meanwhile")).unwrap();
        role.tell(&number.to_string());
    }
}

#[test]
fn a_process_ends_at_every_operation_of_sessions_and_changes_of_the_catalog() {
    let mut kills = 0;
    for at in places() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        let mut child = Child::start("sessions_faults::worker", &root);
        child.tell(&at.to_string());
        let (mut there, mut done, mut meanwhile) = (Tables::new(), 0, false);
        while let Some(told) = child.hear() {
            if told == "meanwhile" {
                meanwhile = true;
                continue;
            }
            assert_eq!(told, done.to_string());
            STEPS[done].1(&mut there);
            (done, meanwhile) = (done + 1, false);
        }
        if done == STEPS.len() {
            break;
        }
        let upserted = BTreeMap::from([("a", vec![0, 1, 3])]);
        let mut may_be = if meanwhile { vec![] } else { vec![there.clone()] };
        may_be.extend((done == 3).then_some(upserted));
        STEPS[done].1(&mut there);
        may_be.push(there);
        let place = format!("operation {at}, step {done}");
        let found = found(EngineStore::open(&root), &place);
        assert!(may_be.contains(&found), "{place}: {found:?} of {may_be:?}");
        assert_nothing_leaks_for_long(&root);
        kills += 1;
    }
    report(&format!("kills: sessions, {kills} processes"));
    assert!(kills * stride() > 100, "{kills} kills");
}
