//! From a scan into a table: one thread reads, and the calling thread loads in batches.
//!
//! Invariant: a batch is durable before the next one begins. So a copy that is interrupted leaves whole
//! batches behind. Memory holds a few record batches, and the memory of one load.

use super::sums::{RangeSums, Summation};
use crate::{
    BatchSource, Error, ErrorKind, Result, ScanRanges, SourceBatch, Table, TableSnapshot,
    stored_rows,
};
use arrow_array::RecordBatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};

/// Batches that may wait to be loaded.
const WAITING: usize = 4;

/// Loads some ranges of a scan into a table, about `batch_rows` at once; returns the sums of the rows sent.
pub(super) fn send(
    scan: &dyn TableSnapshot,
    ranges: &ScanRanges,
    summation: Summation<'_>,
    table: &Table,
    batch_rows: u64,
) -> Result<RangeSums> {
    let (sender, batches) = sync_channel(WAITING);
    let has_failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let has_failed = &has_failed;
        let reader = scope.spawn(move || {
            let summation = Summation { forward: Some(sender), ..summation };
            // The failure is noted before the sender is dropped: the loading thread takes that for the end.
            summation.read(scan, ranges).inspect_err(|_| has_failed.store(true, Relaxed))
        });
        let mut source = LoadBatches {
            batches,
            source: "the table to copy".into(),
            first: None,
            left: 0,
            row: 1,
            has_failed,
        };
        let mut is_cut = false;
        let mut load_all = || -> Result<()> {
            while source.begin(batch_rows) {
                let loaded = table.load(&stored_rows(&mut source));
                is_cut = has_failed.load(Relaxed);
                loaded?;
            }
            Ok(())
        };
        let loaded = load_all();
        // Ends the reading thread, if it still sends.
        drop(source);
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match loaded {
            // This error says which rows may be there or not.
            Err(e) if !is_cut || e.kind() == ErrorKind::UnknownOutcome => Err(e),
            Err(e) => read.and(Err(e)),
            Ok(()) => read,
        }
    })
}

/// The record batches of the scan, cut into loads.
struct LoadBatches<'a> {
    batches: Receiver<RecordBatch>,
    source: Arc<str>,
    /// The first record batch of a load.
    first: Option<RecordBatch>,
    /// Rows that the load may still take.
    left: u64,
    row: u64,
    has_failed: &'a AtomicBool,
}

impl LoadBatches<'_> {
    /// Begins a load; false when no rows are left.
    fn begin(&mut self, rows: u64) -> bool {
        self.left = rows;
        self.first = self.batches.recv().ok();
        self.first.is_some()
    }
}

impl BatchSource for LoadBatches<'_> {
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
