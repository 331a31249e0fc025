//! The first half of a load: rows go to hash partitions.
//!
//! Each row ([`crate::encoding::rows`]) is kept twice: in the partition of its id with the id as key, and in
//! that of its partner_id with the partner_id as key.

use super::spill::{Chunk, Spill};
use crate::cpu;
use crate::encoding::rows;
use crate::encoding::{HashSeed, Packed, Packer};
use crate::hash_partition::HashPartition;
use crate::sync::{AtomicBool, Ordering::Relaxed};
use idmatch_model::{SeenAt, Side};
use idmatch_store::{Call, ObservationSource, Result, Unit};

/// The rows of one partition.
#[derive(Default)]
pub(crate) struct PartitionRows {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) rows: u64,
}

/// Every row of a load, by side and partition.
pub(crate) struct Sides<'a> {
    spill: &'a Spill<'a>,
    by_id: Vec<PartitionRows>,
    by_partner_id: Vec<PartitionRows>,
}

impl Sides<'_> {
    /// Rows of the load.
    pub(crate) fn rows(&self) -> u64 {
        self.by_id.iter().map(|partition| partition.rows).sum()
    }

    /// The rows of a partition.
    pub(crate) fn partition(&self, side: Side, partition: HashPartition) -> Option<&PartitionRows> {
        let partitions = match side {
            Side::Id => &self.by_id,
            Side::PartnerId => &self.by_partner_id,
        };
        partitions.get(usize::from(partition.0))
    }

    /// Appends the rows of a chunk to `rows`.
    pub(crate) fn read(
        &self,
        side: Side,
        partition: HashPartition,
        chunk: &Chunk,
        rows: &mut Vec<u8>,
    ) -> Result<()> {
        self.spill.read(side, partition, chunk, rows)
    }

    /// Says that these partitions are no longer needed.
    pub(crate) fn release(&self, side: Side, partitions: &[HashPartition]) -> Result<()> {
        partitions.iter().try_for_each(|partition| self.spill.release(side, *partition))
    }
}

/// Buffers of one thread for one side.
struct Buffers {
    side: Side,
    seed: HashSeed,
    chunk_bytes: usize,
    open: Vec<Vec<u8>>,
    done: Vec<PartitionRows>,
}

impl Buffers {
    fn new((side, seed): (Side, HashSeed), chunk_bytes: usize) -> Buffers {
        Buffers {
            side,
            seed,
            chunk_bytes,
            open: (0..HashPartition::COUNT).map(|_| Vec::new()).collect(),
            done: (0..HashPartition::COUNT).map(|_| PartitionRows::default()).collect(),
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
        let partition = HashPartition::of(key.hash(self.seed));
        let at = usize::from(partition.0);
        let (Some(buffer), Some(done)) = (self.open.get_mut(at), self.done.get_mut(at)) else {
            return Ok(());
        };
        rows::push(buffer, seen_at, key, value);
        done.rows += 1;
        if buffer.len() >= self.chunk_bytes {
            done.chunks.push(spill.write(self.side, partition, buffer)?);
            buffer.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<PartitionRows> {
        for (done, open) in self.done.iter_mut().zip(self.open) {
            if !open.is_empty() {
                done.chunks.push(Chunk::Memory(open));
            }
        }
        self.done
    }
}

/// Reads a source to its end on all threads.
pub(crate) fn partition_rows<'a>(
    spill: &'a Spill<'a>,
    chunk_bytes: usize,
    seed: HashSeed,
    source: &dyn ObservationSource,
    call: &Call,
) -> Result<Sides<'a>> {
    let stopped = AtomicBool::new(false);
    let threads = cpu::on_each_thread(cpu::count(), |_| {
        let mut by_id = Buffers::new((Side::Id, seed), chunk_bytes);
        let mut by_partner_id = Buffers::new((Side::PartnerId, seed), chunk_bytes);
        let (mut id_packer, mut partner_packer) = (Packer::default(), Packer::default());
        let mut read = || -> Result<()> {
            while !stopped.load(Relaxed) {
                let Some(batch) = source.next_batch()? else { break };
                call.report("load", batch.len() as u64, Unit::Rows)?;
                let pairs = batch.ids.iter().zip(batch.partner_ids.iter());
                for ((id, partner_id), seen_at) in pairs.zip(&batch.seen_at) {
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

/// The rows of all threads, partition by partition.
fn joined(threads: Vec<Vec<PartitionRows>>) -> Vec<PartitionRows> {
    let mut partitions: Vec<PartitionRows> =
        (0..HashPartition::COUNT).map(|_| PartitionRows::default()).collect();
    for thread in threads {
        for (all, own) in partitions.iter_mut().zip(thread) {
            all.rows += own.rows;
            all.chunks.extend(own.chunks);
        }
    }
    partitions
}
