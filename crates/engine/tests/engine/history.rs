//! Readers and writers at once, and the history of what they did: a batch is seen whole, in
//! both directions or in none; once acknowledged, or seen, it is in every answer to whoever asks later; while
//! segments are written and merged, backups made, and the store closed for moments.
//!
//! One question sees one moment, also a match with its thousands of keys. Two questions see two:
//! the later one sees all that the first one saw. A store of its own, in this process or in another,
//! sees what was acknowledged before its last refresh, and nothing new until the next.

use crate::common::{
    Batches, Child, Counts, EVENT_TIMEOUT, Hub, Progress, Random, WhenDropped, create, hub_numbers,
    load, marked, name, report, role, seconds, seed, upsert,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Side};
use idmatch_store::{Admin, Call, ErrorKind, OpenTables, Store, Table};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const TABLE: &str = "t";
/// All but the last one upsert; that one loads.
const WRITERS: usize = 4;

/// A memtable takes some tens of batches.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 2_000,
    chunk_bytes: 2_000,
    run_bytes: 4 << 20,
    population_bytes: 5_000,
    memtable_bytes: 60_000,
};

fn open(root: &Path) -> EngineStore {
    EngineStore::open_with(Arc::new(OsDisk), root, LIMITS).unwrap()
}

/// What the threads share.
struct Run<'a> {
    root: &'a Path,
    store: EngineStore,
    table: Table,
    progress: Progress,
    done: AtomicBool,
    reads: AtomicU64,
    merges: AtomicU64,
    backups: AtomicU64,
    refreshes: AtomicU64,
}

impl Run<'_> {
    /// Whether each thing was done at least once, and each writer wrote.
    fn has_done_all(&self) -> bool {
        let counts = [&self.reads, &self.merges, &self.backups, &self.refreshes];
        counts.iter().all(|count| count.load(Relaxed) > 0)
            && self.progress.sure().iter().all(|count| *count > 0)
    }

    /// Does something until the time is over.
    fn repeat(&self, mut work: impl FnMut()) {
        let _done = WhenDropped(&self.done);
        while !self.done.load(Relaxed) {
            work();
        }
    }

    fn write(&self, writer: usize) {
        let mut random = Random::new(seed(), writer as u64);
        let put = if writer + 1 == WRITERS { load } else { upsert };
        self.repeat(|| {
            let number = self.progress.begin(writer);
            put(&self.table, &mut Batches::of_rows(&marked(writer, number), 4)).unwrap();
            self.progress.acknowledge(writer, number);
            if random.once_in(8) {
                // Nothing changes.
                let again = random.below(number as usize + 1) as u64;
                put(&self.table, &mut Batches::of_rows(&marked(writer, again), 9)).unwrap();
            }
        });
    }

    /// Any hub, mostly one that is being filled.
    fn hub(&self, random: &mut Random) -> Hub {
        let sure = self.progress.sure();
        let number = match random.once_in(4) {
            true => random.below(hub_numbers(&sure).end as usize) as u64,
            false => hub_numbers(&[sure[random.below(WRITERS)]]).end - 1,
        };
        Hub { number, writers: WRITERS }
    }

    fn read(&self, random: &mut Random, table: &Table, known: &Progress) {
        let hub = self.hub(random);
        let side = Side::BOTH[random.below(2)];
        let ask = || match random.once_in(5) {
            true => hub.by_match(table, side),
            false => hub.by_answers(table, side),
        };
        known.check(hub, &self.progress, ask).unwrap_or_else(|violation| panic!("{violation}"));
        self.reads.fetch_add(1, Relaxed);
    }

    fn compact(&self) {
        match self.table.compact() {
            Ok(()) => {}
            // Another thread closes the store.
            Err(e) if e.kind() == ErrorKind::Io && e.chain().contains("being closed") => {}
            Err(e) => panic!("{}", e.chain()),
        }
        self.merges.fetch_add(1, Relaxed);
    }

    fn back_up(&self, random: &mut Random) {
        let copy = self.root.with_extension("copy");
        let known = Progress::new(WRITERS);
        known.raise(&self.progress.sure());
        self.store.backup(&copy, &Call::default()).unwrap();
        {
            let backup = open(&copy);
            let table = backup.table(&name(TABLE)).unwrap();
            // Where each writer was when it began, and any.
            let mut numbers: Vec<u64> =
                known.sure().iter().map(|count| hub_numbers(&[*count]).end - 1).collect();
            numbers.extend((0..8).map(|_| self.hub(random).number));
            for number in numbers {
                let hub = Hub { number, writers: WRITERS };
                known
                    .check(hub, &self.progress, || hub.at_rest(&table))
                    .unwrap_or_else(|violation| panic!("backup: {violation}"));
            }
            assert_eq!(table.verify().unwrap(), []);
        }
        std::fs::remove_dir_all(&copy).unwrap();
        self.backups.fetch_add(1, Relaxed);
    }

    /// Asks another process to refresh and look.
    fn ask_other(&self, random: &mut Random, child: &mut Child, known: &Progress) {
        known.raise(&self.progress.sure());
        let hub = self.hub(random);
        let look = || parsed(&child.ask(&hub.number.to_string()));
        known
            .check(hub, &self.progress, look)
            .unwrap_or_else(|violation| panic!("another process: {violation}"));
        self.refreshes.fetch_add(1, Relaxed);
    }
}

fn parsed(told: &str) -> Result<Counts, String> {
    told.split(' ').map(|word| word.parse().map_err(|_| told.to_owned())).collect()
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn reading_process() {
    let role = role();
    let store = open(&role.store);
    let table = store.table(&name(TABLE)).unwrap();
    role.tell("ready");
    while let Some(number) = role.hear() {
        let hub = Hub { number: number.parse().unwrap(), writers: WRITERS };
        store.refresh(&Call::default()).unwrap();
        let told = match hub.at_rest(&table) {
            Ok(counts) => counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(violation) => violation,
        };
        role.tell(&told);
    }
}

#[test]
fn every_history_is_one_of_whole_batches_in_one_order() {
    let (dir, time) = (tempfile::tempdir().unwrap(), seconds(1));
    let root = dir.path().join("store");
    let store = open(&root);
    let table = create(&store, TABLE, Keep::Last).unwrap();
    let mut child = Child::start("history::reading_process", &root);
    assert_eq!(child.hear().as_deref(), Some("ready"));
    let zero = || AtomicU64::new(0);
    let run = Run {
        root: &root,
        store,
        table,
        progress: Progress::new(WRITERS),
        done: AtomicBool::new(false),
        reads: zero(),
        merges: zero(),
        backups: zero(),
        refreshes: zero(),
    };
    // What a store of its own in this process must see, and what the other process must.
    let (other, refreshed, of_child) =
        (open(&root), Progress::new(WRITERS), Progress::new(WRITERS));
    std::thread::scope(|scope| {
        let (run, other, refreshed, of_child) = (&run, &other, &refreshed, &of_child);
        let random = |number: u64| Random::new(seed(), 100 + number);
        for writer in 0..WRITERS {
            scope.spawn(move || run.write(writer));
        }
        for reader in 0..2 {
            let mut random = random(reader);
            scope.spawn(move || run.repeat(|| run.read(&mut random, &run.table, &run.progress)));
        }
        scope.spawn(|| {
            run.repeat(|| {
                let sure = run.progress.sure();
                other.refresh(&Call::default()).unwrap();
                refreshed.raise(&sure);
            });
        });
        scope.spawn(move || {
            let (mut random, table) = (random(2), other.table(&name(TABLE)).unwrap());
            run.repeat(|| run.read(&mut random, &table, refreshed));
        });
        let child = &mut child;
        scope.spawn(move || {
            let mut random = random(3);
            run.repeat(|| run.ask_other(&mut random, child, of_child));
        });
        scope.spawn(move || {
            let mut random = random(4);
            run.repeat(|| run.back_up(&mut random));
        });
        scope.spawn(move || {
            let mut random = random(5);
            run.repeat(|| {
                // Now and then, so that there is something in the journal when backups are made.
                std::thread::sleep(Duration::from_millis(random.below(80) as u64));
                run.compact();
            });
        });
        scope.spawn(|| {
            run.repeat(|| {
                std::thread::sleep(Duration::from_millis(50));
                run.store.end_writing().unwrap();
            });
        });
        let until = Instant::now() + time;
        let last = until + EVENT_TIMEOUT;
        while !run.done.load(Relaxed)
            && (Instant::now() < until || !run.has_done_all() && Instant::now() < last)
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        run.done.store(true, Relaxed);
    });
    child.finish();
    let sure = run.progress.sure();
    for number in hub_numbers(&sure) {
        let hub = Hub { number, writers: WRITERS };
        assert_eq!(hub.at_rest(&run.table).unwrap(), hub.share(&sure), "at the end");
    }
    assert_eq!(run.table.verify().unwrap(), []);
    let [reads, merges, backups, refreshes] =
        [&run.reads, &run.merges, &run.backups, &run.refreshes].map(|count| count.load(Relaxed));
    assert!(sure.iter().all(|count| *count > 0) && reads > 0, "{sure:?}, {reads} reads");
    assert!(merges > 0 && backups > 0 && refreshes > 0, "{merges}, {backups}, {refreshes}");
    report(&format!(
        "history: {} batches of {WRITERS} writers, {reads} reads, {refreshes} by another process, \
         {merges} compactions, {backups} backups, 0 violations, {} s, seed {}",
        sure.iter().sum::<u64>(),
        time.as_secs(),
        seed()
    ));
}
