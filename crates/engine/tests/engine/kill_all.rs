//! A process that does everything at once is killed at many moments: what was acknowledged is there,
//! whole and in both directions, so is what each finished backup had to have, and what was erased
//! stays away.

use crate::common::{
    Batches, Child, Counts, Progress, Question, Random, Row, ask, assert_nothing_leaks_for_long,
    create, erase, is_between, is_long, load, marked, marked_in, name, report, role, runs, seed,
    upsert,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Side, Target, Window};
use idmatch_store::{Admin, Call, OpenTables, Table};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const TABLE: &str = "t";
/// A store is used for so many kills, so that processes also find what killed ones left.
const KILLS_A_STORE: u64 = 8;

/// What a thread of the process does, over and over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Upsert,
    Load,
    /// Writes something and erases it.
    Erase,
    Compact,
    Backup,
}

/// The threads. Those that write do so as the writer of their number here.
const THREADS: [Action; 7] = [
    Action::Upsert,
    Action::Upsert,
    Action::Upsert,
    Action::Load,
    Action::Erase,
    Action::Compact,
    Action::Backup,
];
const WRITERS: usize = 4;
/// What a process tells at least once before it is killed, however slow the machine is: one of these.
const AWAITED: [&str; 5] = ["ready", "wrote", "erased", "compacts", "copied"];
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
    let table = create(&store, TABLE, Keep::Last).unwrap();
    let there = marked_in(&table, WRITERS).unwrap();
    role.tell("ready");
    std::thread::scope(|scope| {
        for (thread, action) in THREADS.into_iter().enumerate() {
            let (role, store, table, there) = (&role, &store, &table, &there);
            scope.spawn(move || {
                for turn in 0u64.. {
                    match action {
                        Action::Upsert | Action::Load => {
                            let number = there[thread] + turn;
                            let mut rows = Batches::of_rows(&marked(thread, number), 4);
                            match action {
                                Action::Load => load(table, &mut rows).unwrap(),
                                _ => upsert(table, &mut rows).unwrap(),
                            }
                            role.tell(&format!("wrote {thread} {number}"));
                        }
                        Action::Erase => {
                            let doomed = format!("doomed-{}-{turn}", std::process::id());
                            upsert(table, &mut Batches::of_rows(&doomed_rows(&doomed), 4)).unwrap();
                            let target = [Target::PartnerId(doomed.clone())];
                            let erased = erase(table, &target, DOOMED_UNTIL).unwrap();
                            assert_eq!(erased.by_id, erased.by_partner_id);
                            role.tell(&format!("erased {doomed}"));
                            // Late, and hidden all the same.
                            upsert(table, &mut Batches::of_rows(&doomed_rows(&doomed), 4)).unwrap();
                        }
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
                    }
                }
            });
        }
    });
}

/// What the process told before it was killed.
struct Told {
    acknowledged: Counts,
    /// What was erased, each before the copies that have as many.
    erased: Vec<String>,
    /// Begun; most are not done before the end.
    compactions: u64,
    /// The folders of backups, and what was acknowledged, and erased, before each was begun.
    copies: Vec<(String, Counts, usize)>,
}

/// `heard` are the lines that were read before it was killed.
fn listen(child: &mut Child, known: &Progress, heard: Vec<String>) -> Told {
    let mut told =
        Told { acknowledged: known.sure(), erased: Vec::new(), compactions: 0, copies: Vec::new() };
    let mut before = (told.acknowledged.clone(), 0);
    for line in heard.into_iter().chain(std::iter::from_fn(|| child.hear())) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["wrote", writer, number] => {
                // Threads tell of themselves in order.
                told.acknowledged[writer.parse::<usize>().unwrap()] =
                    number.parse::<u64>().unwrap() + 1;
            }
            ["erased", doomed] => told.erased.push(doomed.to_owned()),
            ["begins-copy"] => before = (told.acknowledged.clone(), told.erased.len()),
            ["copied", copy] => told.copies.push((copy.to_owned(), before.0.clone(), before.1)),
            ["compacts"] => told.compactions += 1,
            _ => {}
        }
    }
    told
}

/// What is erased: rows whose dates are before that of the erasure.
fn doomed_rows(doomed: &str) -> Vec<Row> {
    (0..DOOMED_ROWS).map(|row| (format!("id-{row}-{doomed}"), doomed.to_owned(), row)).collect()
}

/// How many batches a store has, as a new process finds it, in which all of `erased` is hidden.
fn inspect(root: &Path, place: &str, erased: &[String]) -> Counts {
    let store = open(root);
    let Ok(table) = store.table(&name(TABLE)) else { return vec![0; WRITERS] };
    assert_eq!(table.verify().unwrap(), [], "{place}");
    let answers = |side, key: &str| {
        ask(&table, &Question::Answers(side, key.to_owned(), Window::ALL)).unwrap()
    };
    for doomed in erased {
        assert_eq!(answers(Side::PartnerId, doomed), [], "{place}: {doomed} is back");
        for (id, _, _) in doomed_rows(doomed) {
            assert_eq!(answers(Side::Id, &id), [], "{place}: {doomed} is back by id");
        }
    }
    marked_in(&table as &Table, WRITERS).unwrap_or_else(|wrong| panic!("{place}: {wrong}"))
}

#[test]
fn a_process_that_does_everything_is_killed() {
    let (kills, seed) = (runs(2), seed());
    let (mut written, mut copies, mut compactions) = (0, 0, 0);
    let (mut erased, mut erasures) = (Vec::new(), 0);
    let mut random = Random::new(seed, 0);
    let mut dir = tempfile::tempdir().unwrap();
    let mut known = Progress::new(WRITERS);
    for kill in 0..kills {
        if kill % KILLS_A_STORE == 0 {
            dir = tempfile::tempdir().unwrap();
            known = Progress::new(WRITERS);
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
            assert_eq!(heard[0], "ready", "{place}");
        }
        std::thread::sleep(Duration::from_micros(random.below(250_000) as u64));
        child.kill();
        let told = listen(&mut child, &known, heard);
        let of_earlier = erased.len();
        erasures += told.erased.len();
        erased.extend(told.erased);
        let there = inspect(&root, &place, &erased);
        // Of each writer one batch may have been written that it could not tell of.
        let most: Counts = told.acknowledged.iter().map(|count| count + 1).collect();
        assert!(
            is_between(&there, &told.acknowledged, &most),
            "{place}: {there:?} are there, {:?} were acknowledged",
            told.acknowledged
        );
        assert_nothing_leaks_for_long(&root);
        for (copy, least, erased_before) in &told.copies {
            let erased = &erased[..of_earlier + erased_before];
            let found = inspect(&dir.path().join(copy), &format!("{place}, {copy}"), erased);
            assert!(is_between(&found, least, &there), "{place}, {copy}: {found:?}, {least:?}");
        }
        remove_copies(dir.path(), &there, &place);
        written += there.iter().sum::<u64>() - before.iter().sum::<u64>();
        copies += told.copies.len();
        compactions += told.compactions;
        known.raise(&there);
    }
    report(&format!(
        "kills: {kills} while {WRITERS} threads wrote {written} batches, began {compactions} \
         compactions and made {copies} backups, and 1 made {erasures} erasures; 0 acknowledged batches \
         lost, 0 erased rows back, 0 findings, seed {seed}"
    ));
    if is_long() {
        // Each was awaited before a sixth of the kills.
        let least = kills / 10;
        assert!(written > least && compactions > least && copies as u64 > least);
        assert!(erasures as u64 > least);
    }
}

/// A backup that was not finished is no store, or has what one has.
fn remove_copies(folder: &Path, most: &[u64], place: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("copy-") {
            if path.join("MANIFEST").exists() {
                let found = inspect(&path, place, &[]);
                assert!(is_between(&found, &[0; WRITERS], most), "{place}: {found:?}");
            }
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
}
