//! Upserts of single rows and erasures of single ids, timed, while the store is verified, backed up and
//! compacted by other threads. Before each compaction, rows are loaded and upserted in batches, which fill memtables.
//!
//! ```text
//! waits DIR ROWS SECONDS
//! ```
//! DIR is made; it has the store and its backups. Maintenance goes on for these seconds, and until each kind of it
//! was done twice. Prints one JSON document; times are in seconds, files in bytes.

mod rows;

use arrow_array::{ArrayRef, TimestampMillisecondArray};
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, SeenAt, TableOptions, Target};
use idmatch_store::{Admin, Call, Ingest, NoRejects, OneObservation, OpenTables, Table, now};
use rows::{Generated, id, partner_id};
use serde_json::{Value, json};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

// As in the Python extension.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;
type Timed = Result<Vec<f64>, Failure>;

/// The table is loaded in so many pieces: compactions have segments to join.
const LOADS: u64 = 4;
/// Each compaction finds so much of the table loaded anew.
const RELOADED_SHARE: u64 = 20;
/// Each compaction finds so many rows upserted in batches: more than a set of memtables takes, so that a full one is
/// flushed in the background, and less than two, so that upserts need not stop for it. The compaction flushes the rest.
const FILLED_ROWS: u64 = 1_200_000;
const BATCH_ROWS: u64 = 10_000;
/// How often each kind of maintenance is done at least.
const LEAST_TIMES: usize = 2;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, rows, seconds] = words.as_slice() else {
        return Err("usage: waits DIR ROWS SECONDS".into());
    };
    let bench = Bench::load(Path::new(dir), rows.parse()?)?;
    println!("{:#}", bench.run(Duration::from_secs_f64(seconds.parse()?))?);
    Ok(())
}

fn ended(thread: ScopedJoinHandle<'_, Timed>) -> Timed {
    thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))
}

/// A loaded table, and who works on it.
struct Bench {
    store: EngineStore,
    table: Table,
    rows: u64,
    backups: PathBuf,
    load_seconds: f64,
    is_over: AtomicBool,
}

impl Bench {
    fn load(dir: &Path, rows: u64) -> Result<Bench, Failure> {
        let store = EngineStore::open(&dir.join("store"))?;
        let options = TableOptions { keep: Keep::Last, retention: None };
        let table = store.table_with(&"matches".parse()?, &options)?;
        let began = Instant::now();
        for part in 0..LOADS {
            load(&table, rows * part / LOADS, rows * (part + 1) / LOADS)?;
        }
        let load_seconds = began.elapsed().as_secs_f64();
        let (backups, is_over) = (dir.join("backups"), AtomicBool::new(false));
        Ok(Bench { store, table, rows, backups, load_seconds, is_over })
    }

    fn run(&self, time: Duration) -> Result<Value, Failure> {
        std::thread::scope(|scope| {
            let upserts = scope.spawn(|| self.repeat(|number| self.upsert(number)));
            let erasures = scope.spawn(|| self.repeat(|number| self.erase(number)));
            let until = Instant::now() + time;
            let verify = scope.spawn(move || self.maintain(until, |_| self.verify()));
            let backup = scope.spawn(move || self.maintain(until, |number| self.back_up(number)));
            let compact = scope.spawn(move || self.maintain(until, |number| self.compact(number)));
            let [verify, backup, compact] = [verify, backup, compact].map(ended);
            self.is_over.store(true, Relaxed);
            let [upserts, erasures] = [ended(upserts)?, ended(erasures)?];
            Ok(json!({
                "rows": self.rows, "load_seconds": self.load_seconds,
                "bytes": self.table.stats()?.bytes,
                "upsert": figures(upserts), "erase": figures(erasures),
                "verify": verify?, "backup": backup?, "compact": compact?,
            }))
        })
    }

    /// Does something over and over while there is maintenance; how long it took each time.
    fn repeat(&self, work: impl Fn(u64) -> Result<(), Failure>) -> Timed {
        let mut seconds = Vec::new();
        while !self.is_over.load(Relaxed) {
            let began = Instant::now();
            work(seconds.len() as u64)?;
            seconds.push(began.elapsed().as_secs_f64());
        }
        Ok(seconds)
    }

    fn maintain(&self, until: Instant, work: impl Fn(u64) -> Result<(), Failure>) -> Timed {
        let mut seconds = Vec::new();
        while seconds.len() < LEAST_TIMES || Instant::now() < until {
            let began = Instant::now();
            work(seconds.len() as u64)?;
            seconds.push(began.elapsed().as_secs_f64());
        }
        Ok(seconds)
    }

    fn upsert(&self, number: u64) -> Result<(), Failure> {
        let seen_at = TimestampMillisecondArray::from(vec![now().millis_i64()]);
        let seen_at: ArrayRef = Arc::new(seen_at.with_timezone("UTC"));
        let row = self.rows + number;
        let mut source = OneObservation::new(&id(row), &partner_id(row), seen_at)?;
        let mut sink = NoRejects;
        Ok(self.table.upsert(&Ingest::new(true, now(), &mut sink).judged(&mut source), None)?)
    }

    fn erase(&self, number: u64) -> Result<(), Failure> {
        // Each is somewhere in the table.
        let row = number.wrapping_mul(0x9e37_79b9) % self.rows;
        let erased = self.table.erase(&[Target::Id(id(row))], now())?;
        match erased.by_id == erased.by_partner_id {
            true => Ok(()),
            false => Err(format!("an erasure hides {erased:?}").into()),
        }
    }

    fn verify(&self) -> Result<(), Failure> {
        match self.table.verify()?.first() {
            None => Ok(()),
            Some(finding) => Err(format!("{}: {}", finding.place, finding.problem).into()),
        }
    }

    fn back_up(&self, number: u64) -> Result<(), Failure> {
        let place = self.backups.join(number.to_string());
        self.store.backup(&place, &Call::default())?;
        Ok(std::fs::remove_dir_all(place)?)
    }

    fn compact(&self, number: u64) -> Result<(), Failure> {
        let share = self.rows / RELOADED_SHARE;
        let first = number % RELOADED_SHARE * share;
        load(&self.table, first, first + share)?;
        self.fill_memtables(first)?;
        Ok(self.table.compact()?)
    }

    /// Upserts rows of the table again, in batches.
    fn fill_memtables(&self, first: u64) -> Result<(), Failure> {
        for batch in 0..FILLED_ROWS / BATCH_ROWS {
            let row = (first + batch * BATCH_ROWS) % self.rows;
            let mut source = Generated::new(row, row + BATCH_ROWS);
            let mut sink = NoRejects;
            self.table
                .upsert(&Ingest::new(true, SeenAt::MAX, &mut sink).judged(&mut source), None)?;
        }
        Ok(())
    }
}

fn load(table: &Table, first: u64, end: u64) -> Result<(), Failure> {
    let (mut source, mut sink) = (Generated::new(first, end), NoRejects);
    Ok(table.load(&Ingest::new(true, SeenAt::MAX, &mut sink).judged(&mut source))?)
}

fn figures(mut seconds: Vec<f64>) -> Value {
    seconds.sort_by(f64::total_cmp);
    let at = |share: f64| {
        seconds.get((seconds.len() as f64 * share) as usize).or(seconds.last()).copied()
    };
    json!({
        "count": seconds.len(), "median": at(0.5), "p99": at(0.99), "p999": at(0.999),
        "longest": seconds.last(),
    })
}
