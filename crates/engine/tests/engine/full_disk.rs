//! A disk that is really full: a small one of its own, filled up and freed again under an open store. What
//! was acknowledged is there throughout; what was refused is not there at all; the error says
//! what to do; and when there is room the same store goes on.

use crate::common::{
    Batches, Child, NumberedRows, Question, Random, ask, assert_nothing_leaks_for_long, create,
    load, name, report, role, runs, seed, skip, upsert,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Side, Window};
use idmatch_store::{Admin, Call, Error, ErrorKind, OpenTables, Table};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const TABLE: &str = "t";
const DISK: usize = 16 << 20;
const ROWS: NumberedRows = NumberedRows(500);
/// A mount namespace of its own, in which it is root: the disk goes with the process.
const ALONE: [&str; 4] = ["unshare", "--user", "--map-root-user", "--mount"];

/// A small disk with a store on it.
struct Place {
    disk: PathBuf,
    root: PathBuf,
    ballast: PathBuf,
    limits: MemoryLimits,
}

/// What has become of the batches.
#[derive(Default)]
struct Told {
    acknowledged: BTreeSet<usize>,
    refused: BTreeSet<usize>,
    next: usize,
}

impl Place {
    fn new(disk: &Path, number: usize, random: &mut Random) -> Place {
        let limits = MemoryLimits {
            segment_rows: [2_000, 1 << 20][random.below(2)],
            chunk_bytes: 4_000,
            run_bytes: 8 << 20,
            population_bytes: 20_000,
            memtable_bytes: [64 << 20, 200_000, 1 << 20][number % 3],
        };
        let place = Place {
            disk: disk.to_owned(),
            root: disk.join("store"),
            ballast: disk.join("ballast"),
            limits,
        };
        let size = format!("size={DISK}");
        assert!(ran(&["mount", "-t", "tmpfs", "-o", &size, "none", disk.to_str().unwrap()]));
        std::fs::write(&place.ballast, vec![1; DISK / 4 * 3 + random.below(DISK / 8)]).unwrap();
        place
    }

    fn open(&self) -> EngineStore {
        EngineStore::open_with(Arc::new(OsDisk), &self.root, self.limits).unwrap()
    }

    /// An error of a full disk says so, names a file, and says what to do.
    fn check_error(&self, doing: &str, error: &Error) {
        let words = format!("{doing}: {}", error.chain());
        assert_eq!(error.kind(), ErrorKind::Io, "{words}");
        assert!(words.contains(self.disk.to_str().unwrap()), "no file is named: {words}");
        assert!(words.contains("No space left on device"), "the cause is not told: {words}");
        assert!(words.contains("free some space and try again"), "no advice: {words}");
    }

    fn upsert(&self, table: &Table, told: &mut Told) -> bool {
        let number = told.next;
        told.next += 1;
        let done = upsert(table, &mut Batches::of_rows(&ROWS.batch(number), 400));
        let to = if done.is_ok() { &mut told.acknowledged } else { &mut told.refused };
        to.insert(number);
        done.map_err(|e| self.check_error("upsert", &e)).is_ok()
    }

    fn load(&self, table: &Table, told: &mut Told) -> bool {
        let number = told.next;
        told.next += 1;
        let done = load(table, &mut Batches::of_rows(&ROWS.batch(number), 400));
        let to = if done.is_ok() { &mut told.acknowledged } else { &mut told.refused };
        to.insert(number);
        done.map_err(|e| self.check_error("load", &e)).is_ok()
    }

    fn back_up(&self, store: &EngineStore, told: &Told, random: &mut Random) {
        let copy = self.disk.join("copy");
        // Links need little room; a journal and a manifest need some.
        match store.backup(&copy, &Call::default()) {
            Ok(()) => {
                let copy = EngineStore::open(&copy).unwrap();
                check_some(&copy.table(&name(TABLE)).unwrap(), told, random, "in a backup");
            }
            Err(e) => {
                self.check_error("backup", &e);
                assert!(!copy.join("MANIFEST").exists(), "half a backup is a store");
            }
        }
        std::fs::remove_dir_all(&copy).ok();
    }
}

fn ran(command: &[&str]) -> bool {
    let ended = Command::new(command[0])
        .args(&command[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    ended.is_ok_and(|status| status.success())
}

/// All that was acknowledged and nothing that was refused: of a few batches every row.
fn check_some(table: &Table, told: &Told, random: &mut Random, when: &str) {
    let last = told.next.saturating_sub(2)..told.next;
    for number in (0..4).map(|_| random.below(told.next)).chain(last) {
        let is = ROWS.are_in(table, number);
        assert_eq!(is, told.acknowledged.contains(&number), "batch {number}, {when}");
    }
}

/// The same of all batches: the half of each that one key has, and by `verify` the other half.
fn check_all(table: &Table, told: &Told, random: &mut Random, when: &str) {
    for number in 0..told.next {
        let hot = Question::Answers(Side::PartnerId, format!("hot-{number}"), Window::ALL);
        let right = if told.acknowledged.contains(&number) { ROWS.0 / 2 } else { 0 };
        assert_eq!(ask(table, &hot).unwrap().len(), right, "batch {number}, {when}");
    }
    assert_eq!(table.verify().unwrap(), [], "{when}");
    let rows = told.acknowledged.len() * ROWS.0;
    assert!(table.stats().unwrap().rows >= rows as u64, "{when}");
    check_some(table, told, random, when);
}

/// Fills the disk, tries everything on it, frees it and goes on: (batches acknowledged, refused).
fn fill_and_free(disk: &Path, number: usize, random: &mut Random) -> (usize, usize) {
    let place = Place::new(disk, number, random);
    let mut told = Told::default();
    let store = place.open();
    let table = create(&store, TABLE, Keep::Last).unwrap();
    while place.upsert(&table, &mut told) {
        assert!(told.next < 10_000, "this disk never gets full");
    }
    check_some(&table, &told, random, "when the disk got full");
    // Some of these may still find room: a smaller file, or what a failed flush gave back.
    // Where there are only upserts the journal file that was torn is the newest to the end.
    let kinds = if number.is_multiple_of(2) { 1 } else { 4 };
    for _ in 0..12 {
        match random.below(kinds) {
            3 => drop(place.load(&table, &mut told)),
            1 => drop(table.compact().map_err(|e| place.check_error("compact", &e))),
            2 => place.back_up(&store, &told, random),
            _ => drop(place.upsert(&table, &mut told)),
        }
        check_some(&table, &told, random, "while the disk was full");
    }
    // Another process finds the same.
    let other = place.open();
    check_all(&other.table(&name(TABLE)).unwrap(), &told, random, "opened on a full disk");
    drop(other);
    if random.once_in(3) {
        store.end_writing().map_err(|e| place.check_error("close", &e)).ok();
    }
    // Room for what is in memory, as segments, and for more.
    std::fs::remove_file(&place.ballast).unwrap();
    for _ in 0..4 {
        assert!(place.upsert(&table, &mut told), "there is room again");
        assert!(place.load(&table, &mut told), "there is room again");
    }
    // What is in the journal is read from there, before it becomes segments.
    let other = place.open();
    check_all(&other.table(&name(TABLE)).unwrap(), &told, random, "read from the journal");
    drop(other);
    table.compact().unwrap();
    check_all(&table, &told, random, "after all");
    store.end_writing().unwrap();
    drop((table, store));
    let reopened = place.open();
    let table = reopened.table(&name(TABLE)).unwrap();
    check_all(&table, &told, random, "reopened");
    assert!(place.upsert(&table, &mut told));
    reopened.end_writing().unwrap();
    assert_nothing_leaks_for_long(&place.root);
    drop((table, reopened));
    // A thread of the store that waited to merge lets go of its files moments after the last user.
    let mut unmounted = (0..500).map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        ran(&["umount", place.disk.to_str().unwrap()])
    });
    assert!(unmounted.any(|it_was| it_was), "files of a closed store are still open");
    (told.acknowledged.len(), told.refused.len())
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn on_a_small_disk() {
    let role = role();
    let (mut acknowledged, mut refused) = (0, 0);
    let count = runs(3);
    for number in 0..count {
        let (more, less) =
            fill_and_free(&role.store, number as usize, &mut Random::new(seed(), number));
        (acknowledged, refused) = (acknowledged + more, refused + less);
    }
    role.tell(&format!(
        "full disk: {count} disks of {} MiB filled and freed, {acknowledged} batches acknowledged, \
         {refused} refused, seed {}",
        DISK >> 20,
        seed()
    ));
    assert!(refused as u64 >= count, "the disks were not full");
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let mut mount = ALONE.to_vec();
    mount.extend(["mount", "-t", "tmpfs", "none", place]);
    if !ran(&mount) {
        return skip("a full disk, as no disk can be mounted (unshare and mount must work)");
    }
    let mut child = Child::start_within(&ALONE, "full_disk::on_a_small_disk", dir.path());
    if let Some(figures) = child.hear() {
        report(&figures);
    }
    child.finish();
}
