//! From a scan into a table: one thread reads, this one loads in portions.
//!
//! Invariant: a portion is there for good before the next one is begun, so that a copy that ends early
//! leaves whole portions behind, and memory holds a few batches and what a load takes.

use super::sums::{Summing, Sums};
use crate::{
    BatchSource, Error, ErrorKind, Ingest, Parts, Reject, RejectSink, Result, Scan, SourceBatch,
    Table, now,
};
use arrow_array::RecordBatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};

/// Batches that may wait to be loaded.
const WAITING: usize = 4;

/// Loads some parts of a scan into a table, about so many rows at once; returns the sums of what was sent.
pub(super) fn send(
    scan: &dyn Scan,
    parts: &Parts,
    summing: Summing<'_>,
    table: &dyn Table,
    portion_rows: u64,
) -> Result<Sums> {
    let (sender, batches) = sync_channel(WAITING);
    let has_failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let has_failed = &has_failed;
        let reader = scope.spawn(move || {
            let summing = Summing { pass_on: Some(sender), ..summing };
            // Before the sender is dropped, which the loading thread takes for the end.
            summing.read(scan, parts).inspect_err(|_| has_failed.store(true, Relaxed))
        });
        let mut portions = Portions {
            batches,
            source: "the copy".into(),
            first: None,
            left: 0,
            row: 1,
            has_failed,
        };
        let mut is_cut = false;
        let mut load_all = || -> Result<()> {
            while portions.begin(portion_rows) {
                let mut refused = Refused;
                let loaded = table.load(&mut portions, &Ingest::new(false, now(), &mut refused));
                is_cut = has_failed.load(Relaxed);
                loaded?;
            }
            Ok(())
        };
        let loaded = load_all();
        // Whoever sends into it ends.
        drop(portions);
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match loaded {
            Err(e) if !is_cut => Err(e),
            Err(e) => read.and(Err(e)),
            Ok(()) => read,
        }
    })
}

/// What was read, cut into loads.
struct Portions<'a> {
    batches: Receiver<RecordBatch>,
    source: Arc<str>,
    /// The first batch of a portion.
    first: Option<RecordBatch>,
    /// Rows that the portion may still take.
    left: u64,
    row: u64,
    has_failed: &'a AtomicBool,
}

impl Portions<'_> {
    /// Begins a portion; false if there are no more rows.
    fn begin(&mut self, rows: u64) -> bool {
        self.left = rows;
        self.first = self.batches.recv().ok();
        self.first.is_some()
    }
}

impl BatchSource for Portions<'_> {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let next = match self.first.take() {
            Some(first) => Some(first),
            None if self.left == 0 => None,
            None => self.batches.recv().ok(),
        };
        let Some(batch) = next else {
            return match self.has_failed.load(Relaxed) {
                true => Err(Error::new(ErrorKind::Source, "the table cannot be read")),
                false => Ok(None),
            };
        };
        let (rows, first_row) = (batch.num_rows() as u64, self.row);
        self.left = self.left.saturating_sub(rows);
        self.row += rows;
        Ok(Some(SourceBatch { source: Arc::clone(&self.source), first_row, batch }))
    }
}

/// What one table took the other takes as well, unless their clocks differ by a day.
struct Refused;

impl RejectSink for Refused {
    fn reject(&mut self, rejects: Vec<Reject>) -> Result<()> {
        let first = rejects.first().map(|row| format!("{} {}", row.column, row.reason));
        let text = format!("the destination refuses a row: {}", first.unwrap_or_default());
        Err(Error::new(ErrorKind::BadInput, text))
    }
}
