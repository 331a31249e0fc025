//! A process that does everything at once, in several tables, is killed at many moments: what was acknowledged
//! is there in its table, whole and in both directions. So is what each finished backup had to have. What was
//! erased from a table stays away from it, and stays in the other tables.

mod catalog;

use crate::common::{
    Batches, Child, Counts, Progress, Question, Random, Role, Row, ask,
    assert_nothing_leaks_for_long, count_rows, create, erase, is_between, is_long, listed, load,
    marked, marked_in, name, report, role, runs, seed, upsert,
};
use catalog::{Catalog, Change};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Side, Target, Window};
use idmatch_store::{Admin, Call, OpenTables, Table};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// All threads write to all of them.
const TABLES: [&str; 3] = ["t", "u", "v"];
/// A store is used for so many kills, so that processes also find what killed ones left.
const KILLS_A_STORE: u64 = 8;

/// What a thread of the process does, over and over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Upsert,
    Load,
    /// Writes something to two tables and erases it from one.
    Erase,
    Compact,
    Backup,
    /// Makes tables, fills them, renames them and drops some.
    Catalog,
}

/// The threads. Those that write do so as the writer of their number here.
const THREADS: [Action; 8] = [
    Action::Upsert,
    Action::Upsert,
    Action::Upsert,
    Action::Load,
    Action::Erase,
    Action::Compact,
    Action::Backup,
    Action::Catalog,
];
/// Threads that write batches or begin to: each has a count of its own in each table.
const WRITERS: usize = 4;
/// What a process tells at least once before it is killed, however slow the machine is: one of these.
const AWAITED: [&str; 6] = ["ready", "wrote", "erased", "compacts", "copied", "changed"];
const DOOMED_ROWS: i64 = 4;
const DOOMED_UNTIL: i64 = 100;

/// A memtable takes some batches.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 500,
    chunk_bytes: 2_000,
    run_bytes: 1 << 20,
    population_bytes: 5_000,
    memtable_bytes: 15_000,
};

fn open(root: &Path) -> EngineStore {
    EngineStore::open_with(Arc::new(OsDisk), root, LIMITS).unwrap()
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn worker() {
    let role = role();
    let store = open(&role.store);
    let tables = TABLES.map(|table| create(&store, table, Keep::Last).unwrap());
    let there = tables.each_ref().map(|table| marked_in(table, WRITERS).unwrap());
    role.tell(&format!("ready {}", std::process::id()));
    std::thread::scope(|scope| {
        for (thread, action) in THREADS.into_iter().enumerate() {
            let (role, store, tables, there) = (&role, &store, &tables, &there);
            scope.spawn(move || {
                for turn in 0.. {
                    // The threads take turns at the tables.
                    let at = (turn + thread) % TABLES.len();
                    let table = &tables[at];
                    match action {
                        Action::Upsert | Action::Load => {
                            let number = there[at][thread] + (turn / TABLES.len()) as u64;
                            let mut rows = Batches::of_rows(&marked(thread, number), 4);
                            match action {
                                Action::Load => load(table, &mut rows).unwrap(),
                                _ => upsert(table, &mut rows).unwrap(),
                            }
                            role.tell(&format!("wrote {} {number}", at * WRITERS + thread));
                        }
                        Action::Erase => erase_something(role, tables, (at, turn)),
                        Action::Compact => {
                            role.tell("compacts");
                            table.compact().unwrap();
                        }
                        Action::Backup => {
                            role.tell("begins-copy");
                            let copy = format!("copy-{}-{turn}", std::process::id());
                            store
                                .backup(&role.store.with_file_name(&copy), &Call::default())
                                .unwrap();
                            role.tell(&format!("copied {copy}"));
                        }
                        Action::Catalog => {
                            Change::new(std::process::id(), turn).apply(store);
                            role.tell("changed");
                        }
                    }
                }
            });
        }
    });
}

fn erase_something(role: &Role, tables: &[Table], (at, turn): (usize, usize)) {
    let doomed = format!("doomed-{}-{turn}", std::process::id());
    let rows = || Batches::of_rows(&doomed_rows(&doomed), 4);
    let table = &tables[at];
    upsert(&tables[(at + 1) % TABLES.len()], &mut rows()).unwrap();
    upsert(table, &mut rows()).unwrap();
    let erased = erase(table, &[Target::PartnerId(doomed.clone())], DOOMED_UNTIL).unwrap();
    assert_eq!(erased.by_id, erased.by_partner_id);
    role.tell(&format!("erased {at} {doomed}"));
    // Late, and hidden all the same.
    upsert(table, &mut rows()).unwrap();
}

/// Something erased: the table that it was erased from, and its name. The next table still has it.
type Erased = (usize, String);

/// What the process told before it was killed.
struct Told {
    /// Its number, if it came so far.
    process: Option<u32>,
    acknowledged: Counts,
    /// What was erased, each before the copies that have as many.
    erased: Vec<Erased>,
    /// Changes of the catalog.
    changes: usize,
    /// Begun; most are not done before the end.
    compactions: u64,
    copies: Vec<Copy>,
}

/// What was told when a backup began, which it must have.
#[derive(Clone)]
struct Copy {
    folder: String,
    acknowledged: Counts,
    erased: usize,
    changes: usize,
}

/// `heard` are the lines that were read before it was killed.
fn listen(child: &mut Child, known: &Progress, heard: Vec<String>) -> Told {
    let mut told = Told {
        process: None,
        acknowledged: known.sure(),
        erased: Vec::new(),
        changes: 0,
        compactions: 0,
        copies: Vec::new(),
    };
    let mut begun = None;
    for line in heard.into_iter().chain(std::iter::from_fn(|| child.hear())) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["ready", process] => told.process = process.parse().ok(),
            ["wrote", count, number] => {
                // Threads tell of themselves in order.
                told.acknowledged[count.parse::<usize>().unwrap()] =
                    number.parse::<u64>().unwrap() + 1;
            }
            ["erased", table, doomed] => {
                told.erased.push((table.parse().unwrap(), doomed.to_owned()));
            }
            ["changed"] => told.changes += 1,
            ["begins-copy"] => {
                let Told { acknowledged, erased, changes, .. } = &told;
                let (acknowledged, erased) = (acknowledged.clone(), erased.len());
                let folder = String::new();
                begun = Some(Copy { folder, acknowledged, erased, changes: *changes });
            }
            ["copied", folder] => {
                told.copies.push(Copy { folder: folder.to_owned(), ..begun.take().unwrap() });
            }
            ["compacts"] => told.compactions += 1,
            _ => panic!("{line}"),
        }
    }
    told
}

/// What is erased: rows whose dates are before that of the erasure.
fn doomed_rows(doomed: &str) -> Vec<Row> {
    (0..DOOMED_ROWS).map(|row| (format!("id-{row}-{doomed}"), doomed.to_owned(), row)).collect()
}

/// What a store has, as a new process finds it.
struct Found {
    /// How many batches of each writer each table has.
    batches: Counts,
    catalog: Catalog,
}

/// What a store has, in which all of `erased` is hidden from its table and there in the next one.
fn inspect(root: &Path, place: &str, erased: &[Erased]) -> Found {
    let store = open(root);
    let mut batches = Vec::new();
    for (at, table_name) in TABLES.into_iter().enumerate() {
        let place = format!("{place}, table {table_name}");
        let Ok(table) = store.table(&name(table_name)) else {
            batches.extend([0; WRITERS]);
            continue;
        };
        assert_eq!(table.verify().unwrap(), [], "{place}");
        for (from, doomed) in erased {
            let rows = doomed_rows(doomed);
            if *from == at {
                assert_eq!(count_rows(&table, &rows), 0, "{place}: {doomed} is back");
            } else if (from + 1) % TABLES.len() == at {
                assert!(has_doomed(&table, &rows), "{place}: {doomed} is gone, too");
            }
        }
        let counts = marked_in(&table, WRITERS);
        batches.extend(counts.unwrap_or_else(|wrong| panic!("{place}: {wrong}")));
    }
    Found { batches, catalog: catalog::found(&store, &TABLES, place) }
}

/// Whether a table has all of these rows, whose partner_id is the same, in both directions.
fn has_doomed(table: &Table, rows: &[Row]) -> bool {
    let answers = |side, key: &str| {
        ask(table, &Question::Answers(side, key.to_owned(), Window::ALL)).unwrap()
    };
    let all = answers(Side::PartnerId, &rows[0].1);
    all.len() == rows.len() && rows.iter().all(|row| answers(Side::Id, &row.0) == [row.clone()])
}

/// Asserts that a store has between so much and so much, and the catalog after so many changes.
fn assert_between(found: &Found, batches: (&[u64], &[u64]), catalogs: &[Catalog], place: &str) {
    let (least, most) = batches;
    assert!(
        is_between(&found.batches, least, most),
        "{place}: {:?} are there, not {least:?} to {most:?}",
        found.batches
    );
    assert!(
        catalogs.contains(&found.catalog),
        "{place}: {:?} is not between {:?} and {:?}",
        found.catalog,
        catalogs.first(),
        catalogs.last()
    );
}

#[test]
fn a_process_that_does_everything_is_killed() {
    let (kills, seed) = (runs(2), seed());
    let (mut written, mut copies, mut compactions) = (0, 0, 0);
    let (mut erased, mut erasures, mut changes) = (Vec::new(), 0, 0);
    let mut random = Random::new(seed, 0);
    let mut dir = tempfile::tempdir().unwrap();
    let new = || (Progress::new(TABLES.len() * WRITERS), Catalog::new());
    let (mut known, mut known_catalog) = new();
    for kill in 0..kills {
        if kill % KILLS_A_STORE == 0 {
            dir = tempfile::tempdir().unwrap();
            (known, known_catalog) = new();
            erased.clear();
        }
        let place = format!("kill {kill}, seed {seed}");
        let root = dir.path().join("store");
        let before = known.sure();
        let mut child = Child::start("kill_all::worker", &root);
        // Most are killed at work, some while they recover.
        let mut heard = Vec::new();
        if !random.once_in(8) {
            let awaited = AWAITED[random.below(AWAITED.len())];
            while !heard.last().is_some_and(|line: &String| line.starts_with(awaited)) {
                heard.push(child.hear().unwrap_or_else(|| panic!("{place}: it ended by itself")));
            }
            assert!(heard[0].starts_with("ready"), "{place}");
        }
        std::thread::sleep(Duration::from_micros(random.below(250_000) as u64));
        child.kill();
        let told = listen(&mut child, &known, heard);
        let of_earlier = erased.len();
        erasures += told.erased.len();
        erased.extend(told.erased);
        let there = inspect(&root, &place, &erased);
        // Of each writer one batch may have been written that it could not tell of, in one of the tables.
        let most: Counts = told.acknowledged.iter().map(|count| count + 1).collect();
        let catalogs: Vec<Catalog> = match told.process {
            Some(process) => (0..=told.changes + 1)
                .map(|changes| catalog::after(&known_catalog, process, changes))
                .collect(),
            None => vec![known_catalog.clone()],
        };
        let of_now = &catalogs[told.changes.min(catalogs.len() - 1)..];
        assert_between(&there, (&told.acknowledged, &most), of_now, &place);
        for writer in 0..WRITERS {
            let sum = |counts: &[u64]| counts.iter().skip(writer).step_by(WRITERS).sum::<u64>();
            assert!(sum(&there.batches) <= sum(&told.acknowledged) + 1, "{place}");
        }
        assert_nothing_leaks_for_long(&root);
        for Copy { folder, acknowledged, erased: count, changes } in &told.copies {
            let place = format!("{place}, {folder}");
            let found = inspect(&dir.path().join(folder), &place, &erased[..of_earlier + count]);
            assert_between(&found, (acknowledged, &there.batches), &catalogs[*changes..], &place);
        }
        remove_copies(dir.path(), &told.copies, &there, &catalogs, &place);
        written += there.batches.iter().sum::<u64>() - before.iter().sum::<u64>();
        copies += told.copies.len();
        compactions += told.compactions;
        changes += told.changes;
        known.raise(&there.batches);
        known_catalog = there.catalog;
    }
    report(&format!(
        "kills: {kills} while {WRITERS} threads wrote {written} batches to {} tables, began \
         {compactions} compactions and made {copies} backups, and 1 made {erasures} erasures, and 1 \
         made {changes} changes of the catalog; 0 acknowledged batches lost, 0 erased rows back, 0 \
         findings, seed {seed}",
        TABLES.len()
    ));
    if is_long() {
        // Each was awaited before a seventh of the kills.
        let least = kills / 10;
        assert!(written > least && compactions > least && copies as u64 > least);
        assert!(erasures as u64 > least && changes as u64 > least);
    }
}

/// A backup that was not finished is no store, or has what one has.
fn remove_copies(
    folder: &Path,
    finished: &[Copy],
    most: &Found,
    catalogs: &[Catalog],
    place: &str,
) {
    for name in listed(folder) {
        let path = folder.join(&name);
        if name.starts_with("copy-") {
            let is_known = finished.iter().any(|copy| copy.folder == name);
            if !is_known && path.join("MANIFEST").exists() {
                let found = inspect(&path, place, &[]);
                let none = vec![0; most.batches.len()];
                assert_between(&found, (&none, &most.batches), catalogs, place);
            }
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
}
