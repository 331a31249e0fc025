//! A population, packed and in the order of the hash.

use crate::packed::{Packed, Packer};
use crate::part::Part;
use crate::record;
use crate::workers;
use idmatch_model::check_id;
use idmatch_store::{BatchSource, Result, population_ids};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Identifiers by part. What is no identifier is counted and otherwise left out.
pub(super) struct Population {
    parts: Vec<PopulationPart>,
    /// Rows read.
    pub(super) rows: u64,
}

/// The identifiers of one part, ordered by the 32 bits of their hash after the part's.
#[derive(Default)]
pub(super) struct PopulationPart {
    entries: Vec<Entry>,
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
    /// Reads a population to its end on all threads.
    pub(super) fn read(source: &mut dyn BatchSource) -> Result<Population> {
        let source = Mutex::new(source);
        let stopped = AtomicBool::new(false);
        let readers = workers::on_each_thread(workers::count(), |thread| {
            read_on_thread(&source, &stopped, thread as u32)
                .inspect_err(|_| stopped.store(true, Relaxed))
        })?;
        let rows = readers.iter().map(|reader| reader.rows).sum();
        let mut parts: Vec<PopulationPart> =
            (0..Part::COUNT).map(|_| PopulationPart::default()).collect();
        let mut read: Vec<_> =
            readers.into_iter().map(|reader| reader.parts.into_iter()).collect();
        for part in &mut parts {
            for (entries, arena) in read.iter_mut().filter_map(Iterator::next) {
                if part.entries.is_empty() {
                    part.entries = entries;
                } else {
                    part.entries.extend_from_slice(&entries);
                }
                part.arenas.push(arena);
            }
        }
        let work: Vec<Mutex<&mut PopulationPart>> = parts.iter_mut().map(Mutex::new).collect();
        workers::for_each(&work, |part| {
            let part = &mut **part.lock().unwrap_or_else(PoisonError::into_inner);
            radsort::sort_by_key(&mut part.entries, |entry| (entry.hash >> (32 - Part::BITS)) as u32);
            Ok(())
        })?;
        drop(work);
        Ok(Population { parts, rows })
    }

    pub(super) fn part(&self, part: Part) -> &PopulationPart {
        const EMPTY: &PopulationPart =
            &PopulationPart { entries: Vec::new(), arenas: Vec::new() };
        self.parts.get(usize::from(part.0)).unwrap_or(EMPTY)
    }
}

fn read_on_thread(
    source: &Mutex<&mut dyn BatchSource>,
    stopped: &AtomicBool,
    thread: u32,
) -> Result<Reader> {
    let parts = (0..Part::COUNT).map(|_| (Vec::new(), Vec::new())).collect();
    let mut reader = Reader { parts, rows: 0 };
    let mut packer = Packer::default();
    while !stopped.load(Relaxed) {
        let next = source.lock().unwrap_or_else(PoisonError::into_inner).next_batch()?;
        let Some(batch) = next else { break };
        reader.rows += batch.batch.num_rows() as u64;
        for id in population_ids(&batch)?.into_iter().flatten() {
            if check_id(id).is_err() {
                continue;
            }
            let id = packer.pack(id);
            let hash = id.hash();
            if let Some((entries, arena)) = reader.parts.get_mut(usize::from(Part::of(hash).0)) {
                entries.push(Entry { hash, arena: thread, at: arena.len() as u32 });
                record::push(arena, id);
            }
        }
    }
    Ok(reader)
}

impl PopulationPart {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All identifiers, in order.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The identifier of an entry.
    #[inline(always)]
    pub(super) fn key(&self, entry: &Entry) -> Option<Packed<'_>> {
        let arena = self.arenas.get(entry.arena as usize)?;
        record::read(arena, entry.at as usize).map(|(key, _)| key)
    }
}
