//! One batch of a population in memory: its identifiers are packed, divided into hash partitions, and sorted by hash.

use crate::cpu;
use crate::encoding::bytes::u32_at;
use crate::encoding::record;
use crate::encoding::{HashSeed, Packed, Packer};
use crate::hash_partition::HashPartition;
use crate::sync::Mutex;
use crate::sync::{AtomicBool, AtomicIsize, Ordering::Relaxed};
use idmatch_model::check_id;
use idmatch_store::{
    BatchSource, Call, MatchQuery, Result, RowStates, SourceBatch, Stage, Timings, Unit,
    UnmatchedReason, population_ids,
};
use std::sync::Arc;

/// From this many entries on, a radix sort is faster than comparisons.
const RADIX_MIN_ENTRIES: usize = 512;

/// From this many rows on, a second sorting thread saves more than it costs.
const PARALLEL_SORT_ROWS: u64 = 1 << 16;

/// The identifiers of a population, or of as much of it as fits into memory, by hash partition. Invalid
/// identifiers are counted and left out.
pub(super) struct Population {
    partitions: Vec<PopulationPartition>,
    /// The states of its rows, if the match is positional.
    pub(super) states: Option<RowStates>,
    /// Rows read.
    pub(super) rows: u64,
    /// Whether the source has ended.
    pub(super) is_last: bool,
}

/// The identifiers of one partition, ordered by the 32 bits of their hash after those of the partition.
#[derive(Default)]
pub(super) struct PopulationPartition {
    entries: Vec<IdEntry>,
    /// The entries of each thread, until they are sorted.
    unsorted: Vec<Vec<IdEntry>>,
    /// The packed identifiers: one arena for each thread. In a positional match the number of the row, a
    /// `u32`, is before each.
    arenas: Vec<Vec<u8>>,
}

/// An identifier.
#[derive(Clone, Copy)]
pub(super) struct IdEntry {
    pub(super) hash: u64,
    arena: u32,
    at: u32,
}

/// The identifiers that one thread has read.
struct IdReader {
    partitions: Vec<(Vec<IdEntry>, Vec<u8>)>,
    rows: u64,
    /// Rows without an identifier, if the match is positional.
    rejected: Vec<(u32, UnmatchedReason)>,
}

/// A population whose rows are numbered when they are pulled.
pub(super) struct NumberedSource<'a> {
    source: &'a mut dyn BatchSource,
    query: MatchQuery,
    call: &'a Call,
    timings: Arc<Timings>,
    next_row: u64,
}

/// A batch, and the number of its first row.
type NumberedBatch = (u64, SourceBatch);

impl<'a> NumberedSource<'a> {
    pub(super) fn new(
        source: &'a mut dyn BatchSource,
        query: MatchQuery,
        call: &'a Call,
    ) -> NumberedSource<'a> {
        NumberedSource { source, query, call, timings: call.timings(), next_row: 0 }
    }

    fn next_batch(&mut self) -> Result<Option<NumberedBatch>> {
        let Some(batch) = self.source.next_batch()? else { return Ok(None) };
        self.call.report("match", batch.batch.num_rows() as u64, Unit::Rows)?;
        let first_row = self.next_row;
        self.next_row = self.query.row_after(first_row, batch.batch.num_rows())?;
        Ok(Some((first_row, batch)))
    }
}

impl Population {
    /// Reads on all threads until the source ends or about `max_bytes` are taken.
    pub(super) fn read(
        source: &mut NumberedSource<'_>,
        max_bytes: usize,
        seed: HashSeed,
    ) -> Result<Population> {
        let (first_row, positions, call) = (source.next_row, source.query.positions, source.call);
        let timings = Arc::clone(&source.timings);
        let first: Vec<NumberedBatch> = {
            let _span = timings.span(call.source_stage());
            [source.next_batch()?, source.next_batch()?].into_iter().flatten().collect()
        };
        let state = ReadState {
            seed,
            timings: &timings,
            stage: call.source_stage(),
            bytes_left: AtomicIsize::new(isize::try_from(max_bytes).unwrap_or(isize::MAX)),
            ended: AtomicBool::new(false),
            source: Mutex::new((first, source)),
        };
        // A single batch is not worth a second thread.
        let threads = cpu::count().min(state.source.lock().0.len().max(1));
        let readers = cpu::on_each_thread(threads, |thread| {
            let _span = timings.span(Stage::Probing);
            let read = match positions {
                true => state.read::<true>(thread as u32),
                false => state.read::<false>(thread as u32),
            };
            read.inspect_err(|_| state.ended.store(true, Relaxed))
        })?;
        let is_last = state.ended.into_inner();
        let rows = readers.iter().map(|reader| reader.rows).sum();
        let states = positions.then(|| {
            // Lossless: a positional match has fewer rows.
            let mut states = RowStates::new(first_row as u32);
            states.extend(rows as usize);
            for (row, reason) in readers.iter().flat_map(|reader| &reader.rejected) {
                states.set_unmatched(*row, *reason);
            }
            states
        });
        let mut read: Vec<_> =
            readers.into_iter().map(|reader| reader.partitions.into_iter()).collect();
        let mut next_partition =
            || PopulationPartition::of(read.iter_mut().filter_map(Iterator::next));
        let partitions: Vec<Mutex<PopulationPartition>> =
            (0..HashPartition::COUNT).map(|_| Mutex::new(next_partition())).collect();
        let threads = if rows < PARALLEL_SORT_ROWS { 1 } else { cpu::count() };
        cpu::for_each_with(
            threads,
            &partitions,
            || Ok(timings.span(Stage::Probing)),
            |_, partition| {
                call.check()?;
                partition.lock().sort();
                Ok(())
            },
            |_| Ok(()),
        )?;
        let partitions = partitions.into_iter().map(|partition| partition.into_inner());
        Ok(Population { partitions: partitions.collect(), states, rows, is_last })
    }

    pub(super) fn partition(&self, partition: HashPartition) -> &PopulationPartition {
        const EMPTY: &PopulationPartition =
            &PopulationPartition { entries: Vec::new(), unsorted: Vec::new(), arenas: Vec::new() };
        self.partitions.get(usize::from(partition.0)).unwrap_or(EMPTY)
    }
}

/// The state that the reading threads share.
struct ReadState<'a, 's> {
    seed: HashSeed,
    timings: &'a Timings,
    /// The stage that counts the time of the source, and of waiting for it.
    stage: Stage,
    /// Batches that were read already, and the source of the later batches.
    source: Mutex<(Vec<NumberedBatch>, &'a mut NumberedSource<'s>)>,
    bytes_left: AtomicIsize,
    ended: AtomicBool,
}

impl ReadState<'_, '_> {
    fn next_batch(&self) -> Result<Option<NumberedBatch>> {
        let _span = self.timings.span(self.stage);
        let (first, source) = &mut *self.source.lock();
        if let Some(batch) = first.pop() {
            return Ok(Some(batch));
        }
        if self.ended.load(Relaxed) || self.bytes_left.load(Relaxed) <= 0 {
            return Ok(None);
        }
        let next = source.next_batch()?;
        if next.is_none() {
            self.ended.store(true, Relaxed);
        }
        Ok(next)
    }

    fn read<const POSITIONS: bool>(&self, thread: u32) -> Result<IdReader> {
        let partitions = (0..HashPartition::COUNT).map(|_| (Vec::new(), Vec::new())).collect();
        let mut reader = IdReader { partitions, rows: 0, rejected: Vec::new() };
        let mut packer = Packer::default();
        while let Some((first_row, batch)) = self.next_batch()? {
            reader.rows += batch.batch.num_rows() as u64;
            let mut bytes = 0;
            for (row, id) in (first_row..).zip(&population_ids(&batch)?) {
                let Some(id) = id.filter(|id| check_id(id).is_ok()) else {
                    if POSITIONS {
                        let reason = match id {
                            None => UnmatchedReason::Null,
                            Some(_) => UnmatchedReason::Malformed,
                        };
                        reader.rejected.push((row as u32, reason));
                        bytes += size_of::<(u32, UnmatchedReason)>();
                    }
                    continue;
                };
                let id = packer.pack(id);
                let hash = id.hash(self.seed);
                if let Some((entries, arena)) =
                    reader.partitions.get_mut(usize::from(HashPartition::of(hash).0))
                {
                    if POSITIONS {
                        arena.extend_from_slice(&(row as u32).to_le_bytes());
                        bytes += size_of::<u32>();
                    }
                    entries.push(IdEntry { hash, arena: thread, at: arena.len() as u32 });
                    record::push(arena, id);
                    bytes += size_of::<IdEntry>() + 1 + id.payload.len();
                }
            }
            self.bytes_left.fetch_sub(bytes as isize, Relaxed);
        }
        Ok(reader)
    }
}

impl PopulationPartition {
    /// The partition as the threads have read it.
    fn of(read: impl Iterator<Item = (Vec<IdEntry>, Vec<u8>)>) -> PopulationPartition {
        let (unsorted, arenas) = read.unzip();
        PopulationPartition { entries: Vec::new(), unsorted, arenas }
    }

    /// Sorts all entries.
    fn sort(&mut self) {
        let mut unsorted = std::mem::take(&mut self.unsorted).into_iter();
        self.entries = unsorted.next().unwrap_or_default();
        unsorted.for_each(|entries| self.entries.extend_from_slice(&entries));
        let place = |entry: &IdEntry| (entry.hash >> (32 - HashPartition::BITS)) as u32;
        if self.entries.len() < RADIX_MIN_ENTRIES {
            self.entries.sort_by_key(place);
        } else {
            radsort::sort_by_key(&mut self.entries, place);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All identifiers, in order.
    pub(super) fn entries(&self) -> &[IdEntry] {
        &self.entries
    }

    /// A partition of encoded identifiers, which start at these offsets. Their hashes are not set.
    pub(super) fn of_records(records: Vec<u8>, offsets: &[u32]) -> PopulationPartition {
        let entries = offsets.iter().map(|at| IdEntry { hash: 0, arena: 0, at: *at }).collect();
        PopulationPartition { entries, unsorted: Vec::new(), arenas: vec![records] }
    }

    /// The identifier of the entry with this number.
    pub(super) fn entry_key(&self, number: u32) -> Option<Packed<'_>> {
        self.key(self.entries.get(number as usize)?)
    }

    /// The row of the entry with this number, in a positional match.
    #[inline]
    pub(super) fn entry_row(&self, number: u32) -> Option<u32> {
        let entry = self.entries.get(number as usize)?;
        let at = (entry.at as usize).checked_sub(size_of::<u32>())?;
        u32_at(self.arenas.get(entry.arena as usize)?, at)
    }

    /// The identifier of an entry.
    #[inline(always)]
    pub(super) fn key(&self, entry: &IdEntry) -> Option<Packed<'_>> {
        let arena = self.arenas.get(entry.arena as usize)?;
        record::read(arena, entry.at as usize).map(|(key, _)| key)
    }
}
