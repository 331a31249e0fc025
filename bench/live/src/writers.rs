//! Threads that upsert, as fast as they can or to a schedule.

use crate::latency::Latency;
use crate::rows::Rows;
use crate::{Failure, clock};
use idmatch_store::Table;
use serde_json::{Value, json};
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::thread;
use std::time::{Duration, Instant};

/// Calls that take longer are stalls.
const STALL: Duration = Duration::from_millis(100);

/// Stalls whose time is recorded; the others are only counted.
const MAX_RECORDED_STALLS: usize = 200;

/// Batch i has the rows from `first + i * batch` on and belongs to thread i modulo `threads`.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) first: u64,
    pub(crate) threads: u64,
    pub(crate) batch: u64,
    /// When to end; otherwise when it is stopped.
    pub(crate) rows: Option<u64>,
    pub(crate) seconds: Option<f64>,
    /// How fast; otherwise as fast as possible.
    pub(crate) rows_per_second: Option<f64>,
}

/// How far the threads are, for others to see.
pub(crate) struct Progress {
    plan: Plan,
    batches: Vec<AtomicU64>,
    stop: AtomicBool,
}

/// Rows written, and the time that they took.
pub(crate) struct Written {
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
    pub(crate) latency: Latency,
    /// Rows acknowledged in each second.
    pub(crate) per_second: Vec<u64>,
    /// When each stall began, and how long it was.
    pub(crate) stalls: Vec<(f64, f64)>,
    /// Processor time that making the rows took, all threads together.
    making: f64,
}

impl Progress {
    pub(crate) fn new(plan: Plan) -> Progress {
        let batches = (0..plan.threads).map(|_| AtomicU64::new(0)).collect();
        Progress { plan, batches, stop: AtomicBool::new(false) }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// A row that was acknowledged, chosen by `draw`.
    pub(crate) fn acknowledged_row(&self, draw: u64) -> Option<u64> {
        let Plan { first, threads, batch, .. } = self.plan;
        let thread = draw % threads;
        let draw = draw / threads;
        let batches = self.batches[thread as usize].load(Acquire);
        let at = (draw / batch).checked_rem(batches)?;
        Some(first + (at * threads + thread) * batch + draw % batch)
    }
}

/// Writes until the plan ends, or it is stopped.
pub(crate) fn write(table: &Table, rows: &Rows, progress: &Progress) -> Result<Written, Failure> {
    let start = Instant::now();
    let parts: Vec<Result<Written, Failure>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..progress.plan.threads)
            .map(|thread| scope.spawn(move || one_thread(table, rows, progress, thread, start)))
            .collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a writer panicked")?).collect()
    });
    let mut all = Written::new();
    for part in parts {
        all.merge(part?);
    }
    Ok(all)
}

fn one_thread(
    table: &Table,
    rows: &Rows,
    progress: &Progress,
    thread: u64,
    start: Instant,
) -> Result<Written, Failure> {
    clock::wake_exactly();
    let plan = progress.plan;
    let mut written = Written::new();
    for at in (thread..).step_by(plan.threads as usize) {
        let enough = plan.rows.is_some_and(|rows| at * plan.batch >= rows)
            || plan.seconds.is_some_and(|seconds| start.elapsed().as_secs_f64() >= seconds)
            || progress.stop.load(Relaxed);
        if enough {
            break;
        }
        let count = plan.rows.map_or(plan.batch, |rows| plan.batch.min(rows - at * plan.batch));
        let made = Instant::now();
        let batch = rows.batch(plan.first + at * plan.batch, count)?;
        let mut began = Instant::now();
        written.making += (began - made).as_secs_f64();
        if let Some(rate) = plan.rows_per_second {
            // Latency counts from the scheduled time: no coordinated omission.
            began = start + Duration::from_secs_f64((at * plan.batch) as f64 / rate);
            clock::wait_until(began, Duration::ZERO);
        }
        rows.upsert(table, batch)?;
        let ended = Instant::now();
        progress.batches[thread as usize].fetch_add(1, Release);
        written.note(count, began - start, ended - start);
    }
    Ok(written)
}

impl Written {
    fn new() -> Written {
        let (per_second, stalls) = (Vec::new(), Vec::new());
        Written { rows: 0, seconds: 0.0, latency: Latency::new(), per_second, stalls, making: 0.0 }
    }

    fn note(&mut self, rows: u64, began: Duration, ended: Duration) {
        let second = ended.as_secs() as usize;
        self.per_second.resize(self.per_second.len().max(second + 1), 0);
        self.per_second[second] += rows;
        self.rows += rows;
        self.seconds = ended.as_secs_f64();
        self.latency.add(ended - began);
        if ended - began > STALL {
            self.stalls.push((began.as_secs_f64(), (ended - began).as_secs_f64()));
        }
    }

    fn merge(&mut self, other: Written) {
        self.rows += other.rows;
        self.seconds = self.seconds.max(other.seconds);
        self.latency.merge(&other.latency);
        self.per_second.resize(self.per_second.len().max(other.per_second.len()), 0);
        for (mine, others) in self.per_second.iter_mut().zip(other.per_second) {
            *mine += others;
        }
        self.stalls.extend(other.stalls);
        self.stalls.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.making += other.making;
    }

    pub(crate) fn rows_per_second(&self) -> f64 {
        self.rows as f64 / self.seconds
    }

    /// Rows per second of each slice of `seconds`; a last, shorter slice does not count.
    fn slices(&self, seconds: usize) -> Vec<f64> {
        let whole = &self.per_second[..(self.seconds as usize).min(self.per_second.len())];
        let slices = whole.chunks_exact(seconds);
        slices.map(|slice| slice.iter().sum::<u64>() as f64 / seconds as f64).collect()
    }

    pub(crate) fn json(&self) -> Value {
        let seconds = if self.seconds >= 30.0 { 10 } else { 1 };
        let slices = self.slices(seconds);
        json!({
            "rows": self.rows, "seconds": self.seconds, "rows_per_second": self.rows_per_second(),
            "slice_seconds": seconds, "slices": slices,
            "slowest_slice": slices.iter().copied().reduce(f64::min),
            "latency": self.latency.json(),
            "stalls": {
                "over": STALL.as_secs_f64(), "calls": self.stalls.len(),
                "began_and_lasted": self.stalls[..self.stalls.len().min(MAX_RECORDED_STALLS)],
            },
            "making_rows_seconds": self.making, "per_second": self.per_second,
        })
    }
}
