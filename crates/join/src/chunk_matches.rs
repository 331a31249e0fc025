//! The positional matches of a hop, spilled by the chunk of their population row.
//!
//! Must not know the carried columns. Invariant: the matches of a row keep their order.

use crate::carried::Level;
use crate::columns::failed;
use crate::limits::{DIVIDED_BYTES, DIVIDED_ROWS, MEMORY_BYTES};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_select::interleave::interleave_record_batch;
use idmatch_store::locks::Mutex;
use idmatch_store::{
    Call, Match, MatchLane, MatchSink, Result, SpilledBatch, SpilledBatches, Stage, Timings,
};
use std::sync::Arc;

/// The matches of each chunk of a level.
pub(crate) struct ChunkMatches(Vec<Vec<SpilledBatch>>);

impl ChunkMatches {
    /// Reads a positional match and divides it.
    pub(crate) fn of(matched: &dyn Match, level: &Level, call: &Call) -> Result<ChunkMatches> {
        let matches = level.chunks.iter().map(|_| Mutex::default()).collect();
        let (timings, spilled) = (call.timings(), SpilledBatches::new(MEMORY_BYTES));
        let partitioner = ChunkPartitioner { level, call, timings, spilled, matches };
        matched.write(&partitioner)?;
        let matches = partitioner.matches.into_iter();
        Ok(ChunkMatches(matches.map(|b| b.into_inner()).collect()))
    }

    /// The matches of the population rows of a chunk: batches of a positional match.
    pub(crate) fn of_chunk(&self, chunk: usize) -> &[SpilledBatch] {
        self.0.get(chunk).map_or(&[], Vec::as_slice)
    }
}

/// Divides matches by the chunk of their population row.
struct ChunkPartitioner<'a> {
    level: &'a Level,
    call: &'a Call,
    timings: Arc<Timings>,
    spilled: SpilledBatches,
    matches: Vec<Mutex<Vec<SpilledBatch>>>,
}

impl MatchSink for ChunkPartitioner<'_> {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        Ok(Box::new(ChunkLane { partitioner: self, pending: Vec::new(), rows: 0, bytes: 0 }))
    }
}

/// The batches of one thread, until they are divided.
struct ChunkLane<'a> {
    partitioner: &'a ChunkPartitioner<'a>,
    pending: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl ChunkLane<'_> {
    fn divide(&mut self) -> Result<()> {
        let ChunkPartitioner { level, timings, spilled, matches, .. } = self.partitioner;
        let _span = timings.span(Stage::Carrying);
        let pending = std::mem::take(&mut self.pending);
        (self.rows, self.bytes) = (0, 0);
        let mut places: Vec<Vec<(usize, usize)>> = matches.iter().map(|_| Vec::new()).collect();
        for (number, batch) in pending.iter().enumerate() {
            let Some(rows) = batch.columns().first() else { continue };
            for (at, row) in rows.as_primitive::<UInt32Type>().values().iter().enumerate() {
                if let Some(places) = places.get_mut(level.chunk_of(*row)) {
                    places.push((number, at));
                }
            }
        }
        let pending: Vec<&RecordBatch> = pending.iter().collect();
        for (matches_of_chunk, places) in matches.iter().zip(places) {
            if !places.is_empty() {
                let batch = interleave_record_batch(&pending, &places).map_err(failed)?;
                let batch = spilled.push(&batch)?;
                matches_of_chunk.lock().push(batch);
            }
        }
        Ok(())
    }
}

impl MatchLane for ChunkLane<'_> {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.partitioner.call.check()?;
        self.rows += batch.num_rows();
        self.bytes += batch.get_array_memory_size();
        self.pending.push(batch);
        if self.rows >= DIVIDED_ROWS || self.bytes >= DIVIDED_BYTES {
            self.divide()
        } else {
            Ok(())
        }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.divide()
    }
}
