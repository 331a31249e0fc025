//! The first half of a load: rows go to the parts of the hash space.
//!
//! Each row ([`crate::encoding::rows`]) is kept twice: in the part of its id's hash with the id as key, and the other way round.

use super::spill::{Chunk, Spill};
use crate::cpu;
use crate::encoding::rows;
use crate::encoding::{Packed, Packer};
use crate::hash_partition::Part;
use crate::sync::Mutex;
use crate::sync::{AtomicBool, Ordering::Relaxed};
use idmatch_model::{SeenAt, Side};
use idmatch_store::{BatchSource, Ingest, Result};

/// Rows of one part.
#[derive(Default)]
pub(crate) struct PartRows {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) rows: u64,
}

/// Every row of a load, by side and part.
pub(crate) struct Sides<'a> {
    spill: &'a Spill<'a>,
    by_id: Vec<PartRows>,
    by_partner_id: Vec<PartRows>,
}

impl Sides<'_> {
    /// Rows of the load.
    pub(crate) fn rows(&self) -> u64 {
        self.by_id.iter().map(|part| part.rows).sum()
    }

    /// The rows of a part.
    pub(crate) fn part(&self, side: Side, part: Part) -> Option<&PartRows> {
        let parts = match side {
            Side::Id => &self.by_id,
            Side::PartnerId => &self.by_partner_id,
        };
        parts.get(usize::from(part.0))
    }

    /// Appends the rows of a chunk of a part to `rows`.
    pub(crate) fn read(
        &self,
        side: Side,
        part: Part,
        chunk: &Chunk,
        rows: &mut Vec<u8>,
    ) -> Result<()> {
        self.spill.read(side, part, chunk, rows)
    }

    /// Says that these parts are no longer needed.
    pub(crate) fn release(&self, side: Side, parts: &[Part]) -> Result<()> {
        parts.iter().try_for_each(|part| self.spill.release(side, *part))
    }
}

/// Buffers of one thread for one side.
struct Buffers {
    side: Side,
    chunk_bytes: usize,
    open: Vec<Vec<u8>>,
    done: Vec<PartRows>,
}

impl Buffers {
    fn new(side: Side, chunk_bytes: usize) -> Buffers {
        Buffers {
            side,
            chunk_bytes,
            open: (0..Part::COUNT).map(|_| Vec::new()).collect(),
            done: (0..Part::COUNT).map(|_| PartRows::default()).collect(),
        }
    }

    #[inline]
    fn push(
        &mut self,
        spill: &Spill<'_>,
        seen_at: SeenAt,
        key: Packed<'_>,
        value: Packed<'_>,
    ) -> Result<()> {
        let part = Part::of(key.hash());
        let at = usize::from(part.0);
        let (Some(buffer), Some(done)) = (self.open.get_mut(at), self.done.get_mut(at)) else {
            return Ok(());
        };
        rows::push(buffer, seen_at, key, value);
        done.rows += 1;
        if buffer.len() >= self.chunk_bytes {
            done.chunks.push(spill.write(self.side, part, buffer)?);
            buffer.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<PartRows> {
        for (done, open) in self.done.iter_mut().zip(self.open) {
            if !open.is_empty() {
                done.chunks.push(Chunk::Memory(open));
            }
        }
        self.done
    }
}

/// Reads a source to its end on all threads.
pub(crate) fn partition<'a>(
    spill: &'a Spill<'a>,
    chunk_bytes: usize,
    source: &mut dyn BatchSource,
    ingest: &Ingest<'_>,
) -> Result<Sides<'a>> {
    let source = Mutex::new(source);
    let stopped = AtomicBool::new(false);
    let threads = cpu::on_each_thread(cpu::count(), |_| {
        let mut by_id = Buffers::new(Side::Id, chunk_bytes);
        let mut by_partner_id = Buffers::new(Side::PartnerId, chunk_bytes);
        let (mut id_packer, mut partner_packer) = (Packer::default(), Packer::default());
        let mut read = || -> Result<()> {
            while !stopped.load(Relaxed) {
                let next = source.lock().next_batch()?;
                let Some(batch) = next else { break };
                let good = ingest.observations(&batch)?;
                let pairs = good.ids.iter().zip(good.partner_ids.iter());
                for ((id, partner_id), seen_at) in pairs.zip(&good.seen_at) {
                    let id = id_packer.pack(id);
                    let partner_id = partner_packer.pack(partner_id);
                    by_id.push(spill, *seen_at, id, partner_id)?;
                    by_partner_id.push(spill, *seen_at, partner_id, id)?;
                }
            }
            Ok(())
        };
        read().inspect_err(|_| stopped.store(true, Relaxed))?;
        Ok((by_id.finish(), by_partner_id.finish()))
    })?;
    let (by_id, by_partner_id): (Vec<_>, Vec<_>) = threads.into_iter().unzip();
    Ok(Sides { spill, by_id: joined(by_id), by_partner_id: joined(by_partner_id) })
}

/// The rows of all threads, part by part.
fn joined(threads: Vec<Vec<PartRows>>) -> Vec<PartRows> {
    let mut parts: Vec<PartRows> = (0..Part::COUNT).map(|_| PartRows::default()).collect();
    for thread in threads {
        for (all, own) in parts.iter_mut().zip(thread) {
            all.rows += own.rows;
            all.chunks.extend(own.chunks);
        }
    }
    parts
}
