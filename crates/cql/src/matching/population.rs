//! One batch of a population in memory, in the order of the servers' partitions.
//!
//! The servers are idle while a population is read, so reading does little: a thread beside it
//! divides identifiers into runs of buckets. A run is sorted when a task takes it, beside the
//! requests in flight. It then fits in the processor's caches, unlike all keys at once.

use crate::schema::bucket::Buckets;
use arrow_array::Array;
use idmatch_model::check_id;
use idmatch_store::{
    BatchSource, Call, Error, ErrorKind, MatchQuery, Result, RowStates, SourceBatch, Stage,
    Timings, UnmatchedReason, population_ids,
};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::{panic, thread};

/// The least memory that an identifier and its row count for, in bytes.
const LEAST_BYTES: usize = 64;
/// Bucket runs of a population batch, or one for each bucket if these are fewer: enough that all
/// tasks end at about the same time.
const BUCKET_RUNS: usize = 1_024;
/// Bytes of text by which a run's memory grows. An identifier is shorter.
const BLOCK_BYTES: usize = 8 << 10;
/// Batches that wait to be divided.
const BATCHES_WAITING: usize = 2;
/// The usual length of an identifier in bytes. The number of identifiers that a block reserves memory for
/// follows from it.
const USUAL_BYTES: usize = 32;

/// A batch of a population: as much of it as fits in memory.
#[derive(Debug)]
pub(super) struct BucketedPopulation {
    /// The bucket runs that have identifiers.
    pub(super) bucket_runs: Vec<BucketRun>,
    /// Rows read.
    pub(super) rows: u64,
    /// Rows with a valid identifier: others match nothing.
    pub(super) valid: u64,
    /// The states of the rows, if the match is positional.
    pub(super) states: Option<RowStates>,
}

/// The identifiers of some buckets, in the order of the population.
#[derive(Debug, Default)]
pub(super) struct BucketRun(Vec<IdBatch>);

/// A block of identifiers.
#[derive(Debug)]
struct IdBatch {
    text: String,
    /// Bucket and length of each identifier.
    each: Vec<(i32, u16)>,
    /// The number of its row, if the match is positional.
    rows: Vec<u32>,
}

/// The distinct keys of some buckets, ordered by bucket and then by bytes.
#[derive(Debug)]
pub(super) struct BucketKeys {
    text: String,
    keys: Vec<Key>,
    /// The numbers of the rows of all keys, key by key, if the match is positional.
    rows: Vec<u32>,
}

/// A key, and its number of rows in the population.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) bucket: i32,
    /// Where the numbers of its rows begin.
    first_row: u32,
    text: Range<usize>,
    pub(super) times: u64,
}

impl BucketedPopulation {
    /// Reads a batch, which ends soon after the Arrow batch that makes it larger than `most` bytes;
    /// returns whether it is the last. Its first row has the given number.
    pub(super) fn read(
        source: &mut dyn BatchSource,
        numbered: (MatchQuery, u64),
        (buckets, most): (Buckets, usize),
        call: &Call,
    ) -> Result<(BucketedPopulation, bool)> {
        let bytes = AtomicUsize::new(0);
        let (batches, waiting) = sync_channel(BATCHES_WAITING);
        let timings = call.timings();
        thread::scope(|scope| {
            let divided = thread::Builder::new()
                .spawn_scoped(scope, || {
                    BucketedPopulation::divide(waiting, numbered, buckets, (&bytes, &timings))
                })
                .map_err(|e| Error::with_source(ErrorKind::Io, "cannot start a thread", e))?;
            let (mut rows, most_rows) = (0, most.div_ceil(LEAST_BYTES));
            let is_last = loop {
                let mut next = || {
                    let _span = timings.span(call.source_stage());
                    source.next_batch()
                };
                let batch = match call.check().and_then(|()| next()) {
                    Ok(Some(batch)) => batch,
                    Ok(None) => break Ok(true),
                    Err(error) => break Err(error),
                };
                rows += batch.batch.num_rows();
                // The receiver is gone if an earlier batch was bad.
                let is_wanted = batches.send(batch).is_ok();
                if !is_wanted || bytes.load(Relaxed) >= most || rows >= most_rows {
                    break Ok(false);
                }
            };
            drop(batches);
            // The error of a batch comes before the errors of later ones.
            let population = divided.join().unwrap_or_else(|e| panic::resume_unwind(e))?;
            Ok((population, is_last?))
        })
    }

    /// Divides batches as they come, and counts the bytes of their identifiers.
    fn divide(
        batches: Receiver<SourceBatch>,
        (query, first_row): (MatchQuery, u64),
        buckets: Buckets,
        (bytes, timings): (&AtomicUsize, &Timings),
    ) -> Result<BucketedPopulation> {
        let count = BUCKET_RUNS.min(usize::try_from(buckets.number).unwrap_or(1).max(1));
        let mut bucket_runs: Vec<BucketRun> = (0..count).map(|_| BucketRun::default()).collect();
        let (mut next_row, mut valid) = (first_row, 0);
        // Lossless here and below: a positional match has fewer rows.
        let mut states = query.positions.then(|| RowStates::new(first_row as u32));
        for batch in batches {
            let _span = timings.span(Stage::Probing);
            let (ids, mut taken) = (population_ids(&batch)?, 0);
            let rows = next_row..query.row_after(next_row, ids.len())?;
            next_row = rows.end;
            if let Some(states) = &mut states {
                states.extend(ids.len());
            }
            for (id, row) in ids.iter().zip(rows) {
                let row = row as u32;
                let key = match id.map(check_id) {
                    Some(Ok(key)) => key,
                    invalid => {
                        let reason = match invalid {
                            None => UnmatchedReason::Null,
                            Some(_) => UnmatchedReason::Malformed,
                        };
                        if let Some(states) = &states {
                            states.set_unmatched(row, reason);
                        }
                        continue;
                    }
                };
                let bucket = buckets.of(key);
                // Both are small, and none is negative.
                let number = bucket as usize * count / buckets.number.max(1) as usize;
                if let Some(bucket_run) = bucket_runs.get_mut(number) {
                    bucket_run.push(bucket, key, states.is_some().then_some(row));
                    valid += 1;
                    taken += key.len();
                }
            }
            bytes.fetch_add(taken, Relaxed);
        }
        bucket_runs.retain(|bucket_run| !bucket_run.0.is_empty());
        Ok(BucketedPopulation { bucket_runs, rows: next_row - first_row, valid, states })
    }
}

impl BucketRun {
    fn push(&mut self, bucket: i32, key: &str, row: Option<u32>) {
        let has_room = |block: &IdBatch| block.text.len() + key.len() <= BLOCK_BYTES;
        if !self.0.last().is_some_and(has_room) {
            self.0.push(IdBatch {
                text: String::with_capacity(BLOCK_BYTES),
                each: Vec::with_capacity(BLOCK_BYTES / USUAL_BYTES),
                rows: Vec::new(),
            });
        }
        if let Some(block) = self.0.last_mut() {
            block.text.push_str(key);
            // Lossless: identifiers are short.
            block.each.push((bucket, key.len() as u16));
            // Not `extend`: without a row, it would still load the list into the cache.
            if let Some(row) = row {
                block.rows.push(row);
            }
        }
    }

    /// The keys of the run. Cost: sorts them.
    pub(super) fn keys(&self) -> BucketKeys {
        let mut all = Vec::with_capacity(self.0.iter().map(|block| block.each.len()).sum());
        for block in &self.0 {
            let mut rest = block.text.as_str();
            let rows = block.rows.iter().copied().chain(std::iter::repeat(0));
            for ((bucket, length), row) in block.each.iter().zip(rows) {
                let (key, more) = rest.split_at_checked(usize::from(*length)).unwrap_or_default();
                rest = more;
                // The first bytes order most keys without a look at the text.
                all.push((*bucket, prefix(key), key, row));
            }
        }
        all.sort_unstable();
        let mut keys = BucketKeys {
            text: String::with_capacity(self.0.iter().map(|block| block.text.len()).sum()),
            keys: Vec::with_capacity(all.len()),
            rows: Vec::new(),
        };
        all.iter().for_each(|(bucket, _, key, _)| keys.push(*bucket, key));
        if self.0.iter().any(|block| !block.rows.is_empty()) {
            keys.number(all.iter().map(|(.., row)| *row));
        }
        keys
    }
}

impl BucketKeys {
    /// Adds a key that is not before the last one.
    fn push(&mut self, bucket: i32, text: &str) {
        if let Some(last) = self.keys.last_mut()
            && self.text.get(last.text.clone()) == Some(text)
        {
            last.times += 1;
            return;
        }
        let start = self.text.len();
        self.text.push_str(text);
        self.keys.push(Key { bucket, first_row: 0, text: start..self.text.len(), times: 1 });
    }

    /// Gives the keys the numbers of their rows, which come key by key.
    fn number(&mut self, rows: impl Iterator<Item = u32>) {
        self.rows.extend(rows);
        let mut first_row = 0;
        for key in &mut self.keys {
            key.first_row = first_row;
            // A positional match has fewer rows.
            first_row += key.times as u32;
        }
    }

    /// The numbers of the rows of a key, if the match is positional.
    pub(super) fn rows(&self, key: &Key) -> Option<&[u32]> {
        let first = key.first_row as usize;
        self.rows.get(first..first + key.times as usize)
    }

    /// The text of a key.
    pub(super) fn text(&self, key: &Key) -> &str {
        self.text.get(key.text.clone()).unwrap_or_default()
    }

    /// The keys of each bucket.
    pub(super) fn buckets(&self) -> impl Iterator<Item = &[Key]> {
        self.keys.chunk_by(|a, b| a.bucket == b.bucket)
    }
}

/// The first eight bytes as a number, ordered as the text is.
fn prefix(key: &str) -> u64 {
    let mut first = [0; 8];
    first.iter_mut().zip(key.bytes()).for_each(|(to, byte)| *to = byte);
    u64::from_be_bytes(first)
}
