//! Everything at once for as long as wanted: upserts, loads, erasures, merges, backups, checks, lookups, matches,
//! and another process that refreshes. Every answer lies between what was acknowledged before it
//! was asked for and what was begun before it came; at the end it is exact.

mod bounds;

use crate::common::{
    Batches, Child, EVENT_TIMEOUT, Question, Random, Row, WhenDropped, ask, create, erase, load,
    name, report, role, seconds, seed, upsert,
};
use bounds::{Bounds, DATES, GRID, Place, Seen, Slots, date, slot};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Pick, Side, Target};
use idmatch_store::{Admin, Call, MatchQuery, OpenTables, Store, Table};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const TABLES: [(&str, Keep); 2] = [("newest", Keep::Last), ("history", Keep::All)];
/// Pairs are written to a generation at a time, so that there is something new to the end.
const GENERATIONS: usize = 64;
/// The other process is killed and started again after so many questions.
const QUESTIONS_A_PROCESS: u64 = 100;

/// What is counted.
#[derive(Debug, Clone, Copy)]
enum Done {
    Upsert,
    Load,
    Erase,
    Read,
    Refresh,
    Compaction,
    Backup,
    Check,
}

struct Soak<'a> {
    root: &'a Path,
    store: EngineStore,
    /// What is known of each table.
    bounds: [Bounds; 2],
    begun: Instant,
    time: Duration,
    over: AtomicBool,
    done: [AtomicU64; 8],
}

fn limits(random: &mut Random) -> MemoryLimits {
    MemoryLimits {
        segment_rows: [2_000, 50_000][random.below(2)],
        chunk_bytes: 4_000,
        run_bytes: 64 << 20,
        population_bytes: [500, 20_000][random.below(2)],
        memtable_bytes: [60_000, 300_000, 1 << 20][random.below(3)],
    }
}

fn open(root: &Path, random: &mut Random) -> EngineStore {
    EngineStore::open_with(Arc::new(OsDisk), root, limits(random)).unwrap()
}

impl Soak<'_> {
    fn repeat(&self, number: u64, mut work: impl FnMut(&mut Random)) {
        let _over = WhenDropped(&self.over);
        let mut random = Random::new(seed(), number);
        while !self.over.load(Relaxed) && !self.is_done() {
            work(&mut random);
        }
    }

    /// Whether the time is over and everything was done, each often enough to mean something.
    fn is_done(&self) -> bool {
        let elapsed = self.begun.elapsed();
        elapsed >= self.time && (self.has_done_all() || elapsed >= self.time + EVENT_TIMEOUT)
    }

    fn has_done_all(&self) -> bool {
        let [upserts, loads, erasures, reads, refreshes, compactions, backups, _] =
            self.done.each_ref().map(|count| count.load(Relaxed));
        [upserts, loads, erasures, reads, refreshes].iter().all(|count| *count > 10)
            && compactions + backups > 0
    }

    fn count(&self, what: Done) {
        self.done[what as usize].fetch_add(1, Relaxed);
    }

    fn table(&self, number: usize) -> Table {
        self.store.table(&name(TABLES[number].0)).unwrap()
    }

    /// The generation that is written to now.
    fn generation(&self) -> usize {
        let share = self.begun.elapsed().as_secs_f64() / self.time.as_secs_f64();
        ((share * GENERATIONS as f64) as usize).min(GENERATIONS - 1)
    }

    fn any_generation(&self, random: &mut Random) -> usize {
        let now = self.generation();
        if random.once_in(4) { random.below(now + 1) } else { now }
    }

    fn write(&self, random: &mut Random, what: Done) {
        let number = random.below(2);
        let count = if matches!(what, Done::Load) { 200 } else { 1 + random.below(24) };
        let generation = self.generation();
        let places: Vec<(Place, usize)> = (0..count)
            .map(|_| {
                let (id, partner_id) = (random.below(GRID), random.below(GRID));
                (Place { generation, id, partner_id }, random.below(DATES))
            })
            .collect();
        let rows: Vec<Row> = places.iter().map(|(place, slot)| place.row(*slot)).collect();
        let mut source = Batches::of_rows(&rows, 1 + random.below(50));
        let bounds = &self.bounds[number];
        places.iter().for_each(|(place, slot)| bounds.begin(*place, *slot));
        match what {
            Done::Load => load(&self.table(number), &mut source).unwrap(),
            _ => upsert(&self.table(number), &mut source).unwrap(),
        }
        places.iter().for_each(|(place, slot)| bounds.acknowledge(*place, *slot));
        self.count(what);
    }

    /// Erases an identifier or a pair, more often its early dates.
    fn erase(&self, random: &mut Random) {
        let (number, generation) = (random.below(2), self.any_generation(random));
        let dates = 1 + random.below(DATES);
        let last = random.below(dates);
        let (side, key) = (Side::BOTH[random.below(2)], random.below(GRID));
        let mut places = Place::all_of(generation, side, key);
        let target = match random.below(2) {
            0 => {
                places = vec![places[random.below(GRID)]];
                places[0].target()
            }
            _ => match (side, Place::key(generation, side, key)) {
                (Side::Id, id) => Target::Id(id),
                (Side::PartnerId, partner_id) => Target::PartnerId(partner_id),
            },
        };
        let bounds = &self.bounds[number];
        places.iter().for_each(|place| bounds.begin_erasure(*place, last));
        erase(&self.table(number), &[target], date(last)).unwrap();
        places.iter().for_each(|place| bounds.acknowledge_erasure(*place, last));
        self.count(Done::Erase);
    }

    fn read(&self, random: &mut Random) {
        let number = random.below(2);
        let (table, bounds) = (self.table(number), &self.bounds[number]);
        let generation = self.any_generation(random);
        let (side, key) = (Side::BOTH[random.below(2)], random.below(GRID));
        let window = match random.below(2) {
            0 => Slots::ALL,
            _ => {
                let since = random.below(DATES);
                Slots(since..since + 1 + random.below(DATES - since))
            }
        };
        match random.below(4) {
            0 => bounds.check_match(generation, side, &window, || {
                let query = MatchQuery {
                    by: side,
                    pick: Pick::All,
                    window: window.window(),
                    positions: false,
                };
                let keys = (0..GRID).map(|key| Place::key(generation, side, key)).collect();
                let rows = ask(&table, &Question::Match(Arc::new(keys), query)).unwrap();
                rows[1..].to_vec()
            }),
            1 => {
                let place = Place { generation, id: key, partner_id: random.below(GRID) };
                let (id, partner_id, _) = place.row(0);
                bounds.check_history(place, || {
                    let rows = ask(&table, &Question::History(id, partner_id)).unwrap();
                    rows.iter().map(|row| slot(row.2)).collect()
                });
            }
            _ => bounds.check_key(generation, side, key, &window, || {
                seen(&table, generation, side, key, &window)
            }),
        }
        self.count(Done::Read);
    }

    /// Checks a table that is no longer written to, or a copy of one, everywhere.
    fn check_all(&self, number: usize, least: &Bounds, table: &Table) {
        assert_eq!(table.verify().unwrap(), []);
        for generation in 0..self.generation() + 1 {
            for side in Side::BOTH {
                for key in 0..GRID {
                    let ask = || seen(table, generation, side, key, &Slots::ALL);
                    least.check_key_until(generation, side, key, &self.bounds[number], ask);
                }
            }
        }
    }

    /// What is done now and then.
    fn keep_house(&self, random: &mut Random) {
        let number = random.below(2);
        match random.below(6) {
            0 | 1 => {
                self.table(number).compact().unwrap();
                self.count(Done::Compaction);
            }
            2 | 3 => {
                let least = self.bounds.each_ref().map(Bounds::acknowledged);
                let [copy, again] = ["copy", "again"].map(|place| self.root.with_extension(place));
                self.store.backup(&copy, &Call::default()).unwrap();
                for (number, (table, _)) in TABLES.into_iter().enumerate() {
                    let backup = open(&copy, random);
                    self.check_all(number, &least[number], &backup.table(&name(table)).unwrap());
                }
                let restored = EngineStore::restore(&copy, &again, true, &Call::default()).unwrap();
                let table = restored.table(&name(TABLES[number].0)).unwrap();
                assert_eq!(table.verify().unwrap(), []);
                drop((table, restored));
                [copy, again].iter().for_each(|place| std::fs::remove_dir_all(place).unwrap());
                self.count(Done::Backup);
            }
            4 => {
                assert_eq!(self.table(number).verify().unwrap(), []);
                self.count(Done::Check);
            }
            _ => self.store.end_writing().unwrap(),
        }
    }

    /// Asks another process, which refreshes first, and kills it now and then.
    fn ask_other(&self, random: &mut Random, child: &mut Option<(Child, u64)>) {
        let (process, asked) = child.get_or_insert_with(|| {
            let mut process = Child::start("soak::reading_process", self.root);
            assert_eq!(process.hear().as_deref(), Some("ready"));
            (process, 0)
        });
        let (number, generation) = (random.below(2), self.any_generation(random));
        let (side, key) = (random.below(2), random.below(GRID));
        self.bounds[number].check_key(generation, Side::BOTH[side], key, &Slots::ALL, || {
            let told = process.ask(&format!("{number} {generation} {side} {key}"));
            let numbers = told.split(' ').filter(|word| !word.is_empty());
            let numbers: Vec<usize> = numbers.map(|word| word.parse().unwrap()).collect();
            numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect()
        });
        *asked += 1;
        self.count(Done::Refresh);
        if *asked == QUESTIONS_A_PROCESS {
            *child = None;
        }
    }
}

/// What a table has of a key: answers and dates by their numbers.
fn seen(table: &Table, generation: usize, side: Side, key: usize, window: &Slots) -> Seen {
    let key = Place::key(generation, side, key);
    let rows = ask(table, &Question::Answers(side, key, window.window())).unwrap();
    assert!(rows.is_sorted_by_key(|row| (-row.2, row.1.clone())), "{rows:?}");
    rows.iter().map(|row| (Place::find(generation, side.other(), &row.1), slot(row.2))).collect()
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn reading_process() {
    let role = role();
    let store = open(&role.store, &mut Random::new(seed(), std::process::id().into()));
    role.tell("ready");
    while let Some(asked) = role.hear() {
        let numbers: Vec<usize> = asked.split(' ').map(|word| word.parse().unwrap()).collect();
        let [number, generation, side, key] = numbers[..] else { panic!("asked {asked}") };
        store.refresh(&Call::default()).unwrap();
        let table = store.table(&name(TABLES[number].0)).unwrap();
        let seen = seen(&table, generation, Side::BOTH[side], key, &Slots::ALL);
        let words = seen.iter().map(|(answer, slot)| format!("{answer} {slot}"));
        role.tell(&words.collect::<Vec<_>>().join(" "));
    }
}

#[test]
fn everything_at_once_stays_within_bounds() {
    let (dir, time, seed) = (tempfile::tempdir().unwrap(), seconds(2), seed());
    report(&format!("soak: begins, {} s, seed {seed}", time.as_secs()));
    let root = dir.path().join("store");
    let mut random = Random::new(seed, 0);
    let store = open(&root, &mut random);
    for (table, keep) in TABLES {
        create(&store, table, keep).unwrap();
    }
    let soak = Soak {
        root: &root,
        store,
        bounds: TABLES.map(|(_, keep)| Bounds::new(keep, GENERATIONS)),
        begun: Instant::now(),
        time,
        over: AtomicBool::new(false),
        done: std::array::from_fn(|_| AtomicU64::new(0)),
    };
    std::thread::scope(|scope| {
        let soak = &soak;
        for number in 1..=2 {
            scope.spawn(move || soak.repeat(number, |random| soak.write(random, Done::Upsert)));
        }
        scope.spawn(|| {
            soak.repeat(3, |random| {
                soak.write(random, Done::Load);
                std::thread::sleep(Duration::from_millis(random.below(40) as u64));
            });
        });
        for number in 4..=5 {
            scope.spawn(move || soak.repeat(number, |random| soak.read(random)));
        }
        scope.spawn(|| soak.repeat(6, |random| soak.keep_house(random)));
        let mut child = None;
        scope.spawn(move || soak.repeat(7, |random| soak.ask_other(random, &mut child)));
        scope.spawn(|| {
            soak.repeat(8, |random| {
                soak.erase(random);
                std::thread::sleep(Duration::from_millis(random.below(300) as u64));
            });
        });
    });
    let [upserts, loads, erasures, reads, refreshes, compactions, backups, checks] =
        soak.done.each_ref().map(|count| count.load(Relaxed));
    soak.store.end_writing().unwrap();
    let reopened = open(&root, &mut random);
    for (number, bounds) in soak.bounds.iter().enumerate() {
        for store in [&soak.store, &reopened] {
            let table = store.table(&name(TABLES[number].0)).unwrap();
            // Nothing is under way: both bounds are the same.
            soak.check_all(number, bounds, &table);
        }
    }
    report(&format!(
        "soak: {upserts} upserts, {loads} loads, {erasures} erasures, {reads} reads, {refreshes} by \
         another process, {compactions} compactions, {backups} backups, {checks} checks, 0 answers out of bounds, \
         {} s, seed {seed}",
        time.as_secs()
    ));
    assert!(soak.has_done_all());
}
