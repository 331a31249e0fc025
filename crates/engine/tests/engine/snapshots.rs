//! Snapshots beside writers: each shows one point of all tables, whole, and goes on to show it.

use crate::common::{
    Batches, Random, Row, WhenDropped, assert_nothing_leaked, assert_same, create, erase, load,
    manifest, name, seed, upsert, whole,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Period, SeenAt, TableOptions, Target, Window};
use idmatch_store::locks::RwLock;
use idmatch_store::{Call, Counting, OpenTables, Snapshot, Store, Table, TableSnapshot, now};
use idmatch_testkit::MemoryStore;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};

/// A memtable takes a few dozens of batches, a range some hundred rows.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 200,
    chunk_bytes: 2_000,
    run_bytes: 4 << 20,
    population_bytes: 2_000,
    memtable_bytes: 40_000,
};
const DAY: i64 = 86_400_000;
const TABLES: [&str; 3] = ["last", "all", "forgetful"];
const KEYS: usize = 30;
/// After so many writes both stores are compared.
const WRITES_BETWEEN_PAIRS: usize = 30;

fn open(root: &Path) -> EngineStore {
    EngineStore::open_with(Arc::new(OsDisk), root, LIMITS).unwrap()
}

fn table_of(snapshot: &dyn Snapshot, table: &str) -> Arc<dyn TableSnapshot> {
    let call = Call::default();
    snapshot.table(snapshot.resolve(&name(table), &call).unwrap(), &call).unwrap()
}

/// A store and the reference, which get the same writes.
struct Twins {
    /// Each table in both stores.
    tables: Vec<[Table; 2]>,
    stores: [Arc<dyn Store>; 2],
    /// Held for reading while one write goes to both.
    gate: RwLock<()>,
    noon: i64,
}

/// Snapshots of both with the same writes.
type Pair = [Arc<dyn Snapshot>; 2];

impl Twins {
    fn new(root: &Path) -> Twins {
        let stores: [Arc<dyn Store>; 2] = [Arc::new(open(root)), Arc::new(MemoryStore::new())];
        let table = |text: &str| {
            let keep = if text == "all" { Keep::All } else { Keep::Last };
            let retention = (text == "forgetful").then(|| Period::parse("300d").unwrap());
            let options = TableOptions { keep, retention };
            stores.each_ref().map(|store| store.table_with(&name(text), &options).unwrap())
        };
        let noon = now().millis_i64() / DAY * DAY - DAY / 2;
        Twins {
            tables: TABLES.iter().copied().map(table).collect(),
            stores,
            gate: RwLock::default(),
            noon,
        }
    }

    fn date(&self, random: &mut Random) -> i64 {
        self.noon - random.below(280) as i64 * DAY
    }

    fn rows(&self, random: &mut Random, count: usize) -> Vec<Row> {
        (0..count)
            .map(|_| {
                let id = if random.once_in(5) { 0 } else { random.below(KEYS) };
                (format!("i{id}"), format!("p{}", random.below(KEYS)), self.date(random))
            })
            .collect()
    }

    /// Does something to a table of both.
    fn write(&self, table: usize, write: impl Fn(&Table)) {
        let _gate = self.gate.read();
        self.tables[table].iter().for_each(write);
    }

    fn pair(&self) -> Pair {
        let _gate = self.gate.write();
        self.stores.each_ref().map(|store| store.snapshot(&Call::default()).unwrap())
    }

    /// Upserts (0 to 3), loads (4 and 5), erases (6) or compacts (7) a number of times.
    fn run(&self, writer: usize, wrote: &Sender<()>) {
        let mut random = Random::new(seed(), writer as u64);
        for step in 0..[40, 40, 40, 40, 15, 15, KEYS, 8][writer] {
            let table = random.below(TABLES.len());
            match writer {
                0..4 => {
                    let rows = self.rows(&mut random, 20);
                    self.write(table, |t| upsert(t, &mut Batches::of_rows(&rows, 7)).unwrap());
                }
                4 | 5 => {
                    let rows = self.rows(&mut random, 60);
                    self.write(table, |t| load(t, &mut Batches::of_rows(&rows, 25)).unwrap());
                }
                6 => {
                    // Each target once, so that both remember as many.
                    let partner_id = format!("p{step}");
                    let targets = [match step % 3 {
                        0 => Target::PartnerId(partner_id),
                        1 => Target::Id(format!("i{step}")),
                        _ => Target::Pair { id: "i0".to_owned(), partner_id },
                    }];
                    let at = self.date(&mut random);
                    self.write(table, |t| {
                        erase(t, &targets, at).unwrap();
                    });
                }
                // Without the gate: answers stay.
                _ => self.tables[step % TABLES.len()][0].compact().unwrap(),
            }
            wrote.send(()).unwrap();
        }
    }
}

/// Both of a pair tell the same of all tables, whatever was written since.
fn compare([ours, reference]: &Pair, what: &str) {
    let keys = |letter| -> Vec<String> {
        let keys = (0..KEYS).map(|n| format!("{letter}{n}"));
        keys.chain(["nobody".to_owned(), format!("{letter}3")]).collect()
    };
    let (ids, partner_ids) = (keys('i'), keys('p'));
    let days = |days: i64| SeenAt::from_millis(now().millis_i64() - days * DAY).ok();
    let windows = [Window::ALL, Window::new(days(200), days(40)).unwrap()];
    for text in TABLES {
        let [ours, reference] = [ours, reference].map(|snapshot| table_of(&**snapshot, text));
        let what = format!("{what}, {text}");
        assert_eq!(ours.options(), reference.options(), "{what}");
        let told = |table: &dyn TableSnapshot| whole(table, [&ids, &partner_ids], &windows);
        assert_same(&told(&*ours), &told(&*reference), &what);
        let call = Call::default();
        let [our, their] =
            [&ours, &reference].map(|table| table.stats(Counting::All, &call).unwrap());
        assert_eq!(our.erasures, their.erasures, "{what}");
        // What retention hides is gone at some time.
        if text != "forgetful" {
            assert!(our.rows >= their.rows, "{what}: {} rows", our.rows);
            let [our, their] = [&ours, &reference]
                .map(|table| table.stats(Counting::All, &call).unwrap().distinct);
            assert_eq!(our, their, "{what}");
        }
    }
}

#[test]
fn snapshots_beside_eight_writers_equal_those_of_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let twins = Twins::new(dir.path());
    let (sender, wrote) = channel();
    let mut pairs = Vec::new();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (twins, sender) = (&twins, sender.clone());
            scope.spawn(move || twins.run(writer, &sender));
        }
        drop(sender);
        for (number, ()) in wrote.iter().enumerate() {
            if number % WRITES_BETWEEN_PAIRS != 0 {
                continue;
            }
            pairs.push(twins.pair());
            match pairs.len() {
                3 => {
                    let _gate = twins.gate.write();
                    let retention = Some(Period::parse("150d").unwrap());
                    twins.tables[2]
                        .iter()
                        .for_each(|t| t.set_retention(retention.clone()).unwrap());
                }
                // The others go on meanwhile.
                older if older >= 2 => compare(&pairs[older - 2], &format!("pair {}", older - 2)),
                _ => {}
            }
        }
    });
    let first = manifest(dir.path()).unwrap()["journal"]["first"].as_u64().unwrap();
    assert!(first > 1, "nothing was flushed beside the writers");
    let all = twins.pair();
    for table in &twins.tables {
        table[0].compact().unwrap();
        assert_eq!(table[0].verify().unwrap(), []);
    }
    for table in twins.tables.iter().flatten() {
        erase(table, &[Target::Id("i0".to_owned())], twins.noon).unwrap();
    }
    twins.tables.iter().for_each(|table| table[0].compact().unwrap());
    assert!(pairs.len() > 6, "{} pairs", pairs.len());
    for (number, pair) in pairs.iter().chain([&all]).enumerate() {
        compare(pair, &format!("at the end, pair {number}"));
    }
    compare(&twins.pair(), "the latest pair");
    drop((pairs, all));
    assert_nothing_leaked(dir.path());
}

/// Each number goes into the table "a" first, and then into "b": no snapshot has it in "b" only.
#[test]
fn no_snapshot_shows_a_write_without_the_one_before_it_in_another_table() {
    const WRITERS: usize = 4;
    const NUMBERS: i64 = 120;
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open_with(
        Arc::new(OsDisk),
        dir.path(),
        MemoryLimits { memtable_bytes: 9_000, ..LIMITS },
    )
    .unwrap();
    let [a, b] = ["a", "b"].map(|table| create(&store, table, Keep::Last).unwrap());
    let done = AtomicBool::new(false);
    let id = |writer: usize| format!("writer {writer}");
    let check = |all: i64| {
        let snapshot = store.snapshot(&Call::default()).unwrap();
        let [a, b] = ["a", "b"].map(|table| table_of(&*snapshot, table));
        for writer in 0..WRITERS {
            let newest = |table: &dyn TableSnapshot| {
                let seen = table.last_seen(&id(writer), "p", &Call::default()).unwrap();
                seen.map_or(0, SeenAt::millis_i64)
            };
            let (in_b, in_a) = (newest(&*b), newest(&*a));
            assert!(in_a == in_b || in_a == in_b + 1, "writer {writer}: {in_a} in a, {in_b} in b");
            assert!(in_b >= all, "writer {writer}: {in_b} in b");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    check(0);
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Relaxed) {
                a.compact().unwrap();
                b.compact().unwrap();
            }
        });
        let _done = WhenDropped(&done);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (a, b, id) = (&a, &b, &id);
                scope.spawn(move || {
                    for number in 1..=NUMBERS {
                        let rows = [(id(writer), "p".to_owned(), number)];
                        // Two writers also publish.
                        let is_loaded = writer % 2 == 1 && number % 10 == 0;
                        upsert(a, &mut Batches::of_rows(&rows, 1)).unwrap();
                        let put = if is_loaded { load } else { upsert };
                        put(b, &mut Batches::of_rows(&rows, 1)).unwrap();
                    }
                });
            }
        });
    });
    check(NUMBERS);
    a.compact().unwrap();
    check(NUMBERS);
}
