//! A population, packed and in the order of the hash.

use crate::cpu;
use crate::encoding::record;
use crate::encoding::{Packed, Packer};
use crate::hash_partition::Part;
use crate::sync::Mutex;
use crate::sync::{AtomicBool, AtomicIsize, Ordering::Relaxed};
use idmatch_model::check_id;
use idmatch_store::{BatchSource, Result, SourceBatch, population_ids};

/// From this many entries on, sorting by digits is faster than by comparing.
const RADIX_ENTRIES: usize = 512;

/// From this many rows on, a second thread sorts more than it costs.
const WORTH_SORTING_APART: u64 = 1 << 16;

/// Identifiers by part: a population, or as much of it as fits into memory. What is no
/// identifier is counted and otherwise left out.
pub(super) struct Population {
    parts: Vec<PopulationPart>,
    /// Rows read.
    pub(super) rows: u64,
    /// Whether the source has ended.
    pub(super) is_last: bool,
}

/// The identifiers of one part, ordered by the 32 bits of their hash after the part's.
#[derive(Default)]
pub(super) struct PopulationPart {
    entries: Vec<Entry>,
    /// What each thread read, until it is sorted.
    pieces: Vec<Vec<Entry>>,
    /// Where the packed identifiers lie: one arena for each thread that read some.
    arenas: Vec<Vec<u8>>,
}

/// An identifier.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) hash: u64,
    arena: u32,
    at: u32,
}

/// What one thread read.
struct Reader {
    parts: Vec<(Vec<Entry>, Vec<u8>)>,
    rows: u64,
}

impl Population {
    /// Reads on all threads until the source ends or about `max_bytes` are taken.
    pub(super) fn read(source: &mut dyn BatchSource, max_bytes: usize) -> Result<Population> {
        let first: Vec<SourceBatch> =
            [source.next_batch()?, source.next_batch()?].into_iter().flatten().collect();
        let shared = Shared {
            bytes_left: AtomicIsize::new(isize::try_from(max_bytes).unwrap_or(isize::MAX)),
            ended: AtomicBool::new(false),
            source: Mutex::new((first, source)),
        };
        // A single batch is not worth a second thread.
        let threads = cpu::count().min(shared.source.lock().0.len().max(1));
        let readers = cpu::on_each_thread(threads, |thread| {
            shared.read(thread as u32).inspect_err(|_| shared.ended.store(true, Relaxed))
        })?;
        let is_last = shared.ended.into_inner();
        let rows = readers.iter().map(|reader| reader.rows).sum();
        let mut read: Vec<_> = readers.into_iter().map(|reader| reader.parts.into_iter()).collect();
        let mut next_part = || PopulationPart::of(read.iter_mut().filter_map(Iterator::next));
        let parts: Vec<Mutex<PopulationPart>> =
            (0..Part::COUNT).map(|_| Mutex::new(next_part())).collect();
        let threads = if rows < WORTH_SORTING_APART { 1 } else { cpu::count() };
        cpu::for_each(threads, &parts, |part| {
            part.lock().sort();
            Ok(())
        })?;
        let parts = parts.into_iter().map(|part| part.into_inner());
        Ok(Population { parts: parts.collect(), rows, is_last })
    }

    pub(super) fn part(&self, part: Part) -> &PopulationPart {
        const EMPTY: &PopulationPart =
            &PopulationPart { entries: Vec::new(), pieces: Vec::new(), arenas: Vec::new() };
        self.parts.get(usize::from(part.0)).unwrap_or(EMPTY)
    }
}

/// What the reading threads share.
struct Shared<'a> {
    /// Batches that were read already, and where the others come from.
    source: Mutex<(Vec<SourceBatch>, &'a mut dyn BatchSource)>,
    bytes_left: AtomicIsize,
    ended: AtomicBool,
}

impl Shared<'_> {
    fn next_batch(&self) -> Result<Option<SourceBatch>> {
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

    fn read(&self, thread: u32) -> Result<Reader> {
        let parts = (0..Part::COUNT).map(|_| (Vec::new(), Vec::new())).collect();
        let mut reader = Reader { parts, rows: 0 };
        let mut packer = Packer::default();
        while let Some(batch) = self.next_batch()? {
            reader.rows += batch.batch.num_rows() as u64;
            let mut bytes = 0;
            for id in population_ids(&batch)?.into_iter().flatten() {
                if check_id(id).is_err() {
                    continue;
                }
                let id = packer.pack(id);
                let hash = id.hash();
                if let Some((entries, arena)) = reader.parts.get_mut(usize::from(Part::of(hash).0))
                {
                    entries.push(Entry { hash, arena: thread, at: arena.len() as u32 });
                    record::push(arena, id);
                    bytes += size_of::<Entry>() + 1 + id.payload.len();
                }
            }
            self.bytes_left.fetch_sub(bytes as isize, Relaxed);
        }
        Ok(reader)
    }
}

impl PopulationPart {
    /// What each thread has read of a part.
    fn of(read: impl Iterator<Item = (Vec<Entry>, Vec<u8>)>) -> PopulationPart {
        let (pieces, arenas) = read.unzip();
        PopulationPart { entries: Vec::new(), pieces, arenas }
    }

    /// Brings all that was read into order.
    fn sort(&mut self) {
        let mut pieces = std::mem::take(&mut self.pieces).into_iter();
        self.entries = pieces.next().unwrap_or_default();
        pieces.for_each(|piece| self.entries.extend_from_slice(&piece));
        let place = |entry: &Entry| (entry.hash >> (32 - Part::BITS)) as u32;
        if self.entries.len() < RADIX_ENTRIES {
            self.entries.sort_by_key(place);
        } else {
            radsort::sort_by_key(&mut self.entries, place);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All identifiers, in order.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The identifiers with their hashes.
    pub(super) fn keys(&self) -> impl Iterator<Item = (u64, Packed<'_>)> + Clone {
        self.entries.iter().filter_map(|entry| Some((entry.hash, self.key(entry)?)))
    }

    /// A part whose identifiers, without hashes, lie as records at these offsets.
    pub(super) fn of_records(records: Vec<u8>, offsets: &[u32]) -> PopulationPart {
        let entries = offsets.iter().map(|at| Entry { hash: 0, arena: 0, at: *at }).collect();
        PopulationPart { entries, pieces: Vec::new(), arenas: vec![records] }
    }

    /// The identifier of the entry with this number.
    pub(super) fn entry_key(&self, number: u32) -> Option<Packed<'_>> {
        self.key(self.entries.get(number as usize)?)
    }

    /// The identifier of an entry.
    #[inline(always)]
    pub(super) fn key(&self, entry: &Entry) -> Option<Packed<'_>> {
        let arena = self.arenas.get(entry.arena as usize)?;
        record::read(arena, entry.at as usize).map(|(key, _)| key)
    }
}
