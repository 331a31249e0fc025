//! What a store and this process take while something runs, and when the background is idle.

use crate::latency::Latency;
use crate::{Failure, clock};
use idmatch_store::Table;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(10);
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Idle is who changes nothing and uses less than a tenth of a processor for so long.
const IDLE: Duration = Duration::from_secs(8);

/// Looks on until it is ended.
pub(crate) struct Watch {
    seen: Arc<Seen>,
    thread: JoinHandle<()>,
}

struct Seen {
    table: Table,
    root: PathBuf,
    start: Instant,
    end: AtomicBool,
    peak: AtomicU64,
    samples: Mutex<Vec<Value>>,
}

impl Watch {
    pub(crate) fn start(table: &Table, root: &Path) -> Watch {
        let seen = Arc::new(Seen {
            table: table.clone(),
            root: root.to_owned(),
            start: Instant::now(),
            end: AtomicBool::new(false),
            peak: AtomicU64::new(0),
            samples: Mutex::default(),
        });
        let theirs = seen.clone();
        Watch { seen, thread: std::thread::spawn(move || theirs.look()) }
    }

    /// The most private memory so far.
    pub(crate) fn peak(&self) -> u64 {
        self.seen.peak.load(Relaxed)
    }

    /// The samples, a second apart.
    pub(crate) fn end(self) -> Value {
        self.seen.end.store(true, Relaxed);
        self.thread.join().ok();
        Value::Array(std::mem::take(&mut *lock(&self.seen.samples)))
    }
}

impl Seen {
    fn look(&self) {
        let mut due = Instant::now();
        while !self.end.load(Relaxed) {
            let private = private_bytes();
            self.peak.fetch_max(private, Relaxed);
            if Instant::now() >= due {
                due += SAMPLE_EVERY;
                let mut sample = state(&self.table, &self.root);
                sample["seconds"] = self.start.elapsed().as_secs_f64().into();
                sample["private_bytes"] = private.into();
                lock(&self.samples).push(sample);
            }
            std::thread::sleep(EVERY);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What there is of a table, and of the store on disk.
pub(crate) fn state(table: &Table, root: &Path) -> Value {
    let stats = table.stats().unwrap_or_default();
    json!({
        "rows": stats.rows, "segments": stats.segments, "segment_bytes": stats.bytes,
        "memtable_rows": stats.memtable_rows, "memtable_bytes": stats.memtable_bytes,
        "journal_bytes": bytes_in(&root.join("journal")), "store_bytes": store_bytes(root),
    })
}

/// Bytes of a store's files.
pub(crate) fn store_bytes(root: &Path) -> u64 {
    bytes_in(root)
        + ["segments", "scratch", "journal"]
            .map(|name| bytes_in(&root.join(name)))
            .iter()
            .sum::<u64>()
}

fn files(folder: &Path) -> Vec<(std::ffi::OsString, u64)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sized = entries.filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?)));
    sized.filter(|(_, data)| data.is_file()).map(|(name, data)| (name, data.len())).collect()
}

pub(crate) fn bytes_in(folder: &Path) -> u64 {
    files(folder).iter().map(|(_, bytes)| bytes).sum()
}

/// Memory that is this process's own.
fn private_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Waits until the background is idle; returns the seconds until it was.
pub(crate) fn wait_until_idle(root: &Path) -> f64 {
    let start = Instant::now();
    let (mut last_change, mut before, mut used) = (start, Vec::new(), clock::processor_time());
    while last_change.elapsed() < IDLE {
        std::thread::sleep(Duration::from_millis(100));
        let mut now = files(&root.join("segments"));
        now.sort();
        let using = clock::processor_time();
        if now != before || using - used > Duration::from_millis(10) {
            last_change = Instant::now();
        }
        (before, used) = (now, using);
    }
    (last_change - start).as_secs_f64()
}

/// Times appending 4 KiB durably.
pub(crate) fn fdatasync(folder: &Path) -> Result<Value, Failure> {
    let path = folder.join("fdatasync.tmp");
    let mut file = File::create(&path)?;
    let mut latency = Latency::new();
    for _ in 0..1_000 {
        file.write_all(&[1; 4096])?;
        let began = Instant::now();
        file.sync_data()?;
        latency.add(began.elapsed());
    }
    fs::remove_file(path)?;
    Ok(json!({ "latency": latency.json() }))
}
