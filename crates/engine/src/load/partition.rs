//! The first half of a load: rows go to hash partitions.
//!
//! Each row ([`crate::encoding::rows`]) is kept twice, once for each direction. The key of the direction, id
//! or partner_id, decides the hash partition. Full buffers go to `spill`.

use super::spill::{Spill, SpillChunk};
use crate::cpu;
use crate::encoding::rows;
use crate::encoding::{HashSeed, Packed, Packer};
use crate::hash_partition::HashPartition;
use crate::sync::{AtomicBool, Ordering::Relaxed};
use idmatch_model::{SeenAt, Side};
use idmatch_store::{Call, ObservationSource, Observations, Result, Unit};
use std::sync::Arc;

/// The rows of one partition.
#[derive(Default)]
pub(crate) struct PartitionRows {
    pub(crate) chunks: Vec<SpillChunk>,
    pub(crate) rows: u64,
}

/// Every row of a load, by side and partition.
pub(crate) struct Sides {
    pub(crate) spill: Arc<Spill>,
    pub(crate) rows: Partitioned,
}

impl Sides {
    /// The rows of a partition.
    pub(crate) fn partition(&self, side: Side, partition: HashPartition) -> Option<&PartitionRows> {
        let partitions = match side {
            Side::Id => &self.rows.by_id,
            Side::PartnerId => &self.rows.by_partner_id,
        };
        partitions.get(usize::from(partition.0))
    }

    /// Appends the rows of a chunk to `rows`.
    pub(crate) fn read(
        &self,
        side: Side,
        partition: HashPartition,
        chunk: &SpillChunk,
        rows: &mut Vec<u8>,
    ) -> Result<()> {
        self.spill.read(side, partition, chunk, rows)
    }

    /// Notes that these partitions are no longer needed.
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
        spill: &Spill,
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
                done.chunks.push(SpillChunk::Memory(open));
            }
        }
        self.done
    }
}

/// Puts the rows of one thread into partitions.
pub(crate) struct Partitioner {
    spill: Arc<Spill>,
    by_id: Buffers,
    by_partner_id: Buffers,
    id_packer: Packer,
    partner_packer: Packer,
}

/// Rows in partitions, by id and by partner_id.
#[derive(Default)]
pub(crate) struct Partitioned {
    by_id: Vec<PartitionRows>,
    by_partner_id: Vec<PartitionRows>,
}

impl Partitioner {
    pub(crate) fn new(spill: &Arc<Spill>, chunk_bytes: usize, seed: HashSeed) -> Partitioner {
        Partitioner {
            spill: spill.clone(),
            by_id: Buffers::new((Side::Id, seed), chunk_bytes),
            by_partner_id: Buffers::new((Side::PartnerId, seed), chunk_bytes),
            id_packer: Packer::default(),
            partner_packer: Packer::default(),
        }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn add(&mut self, batch: &Observations) -> Result<()> {
        let pairs = batch.ids.iter().zip(batch.partner_ids.iter());
        for ((id, partner_id), seen_at) in pairs.zip(&batch.seen_at) {
            let id = self.id_packer.pack(id);
            let partner_id = self.partner_packer.pack(partner_id);
            self.by_id.push(&self.spill, *seen_at, id, partner_id)?;
            self.by_partner_id.push(&self.spill, *seen_at, partner_id, id)?;
        }
        Ok(())
    }

    /// Adds a row that is packed already.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn add_row(
        &mut self,
        seen_at: SeenAt,
        id: Packed<'_>,
        partner_id: Packed<'_>,
    ) -> Result<()> {
        self.by_id.push(&self.spill, seen_at, id, partner_id)?;
        self.by_partner_id.push(&self.spill, seen_at, partner_id, id)
    }

    pub(crate) fn finish(self) -> Partitioned {
        Partitioned { by_id: self.by_id.finish(), by_partner_id: self.by_partner_id.finish() }
    }
}

impl Partitioned {
    /// The number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.by_id.iter().map(|partition| partition.rows).sum()
    }

    /// Bytes of rows that are in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let chunks = self.by_id.iter().chain(&self.by_partner_id).flat_map(|rows| &rows.chunks);
        chunks.filter(|chunk| matches!(chunk, SpillChunk::Memory(_))).map(SpillChunk::len).sum()
    }

    /// Moves rows in memory to the spill files.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn spill(&mut self, spill: &Spill) -> Result<()> {
        let sides = [(Side::Id, &mut self.by_id), (Side::PartnerId, &mut self.by_partner_id)];
        for (side, partitions) in sides {
            for (partition, rows) in HashPartition::all().zip(partitions) {
                for chunk in &mut rows.chunks {
                    if let SpillChunk::Memory(bytes) = chunk {
                        *chunk = spill.write(side, partition, bytes)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads a source to its end on all threads.
pub(crate) fn partition_rows(
    spill: &Arc<Spill>,
    chunk_bytes: usize,
    seed: HashSeed,
    source: &dyn ObservationSource,
    call: &Call,
) -> Result<Partitioned> {
    let stopped = AtomicBool::new(false);
    let threads = cpu::on_each_thread(cpu::count(), |_| {
        let mut partitioner = Partitioner::new(spill, chunk_bytes, seed);
        let mut read = || -> Result<()> {
            while !stopped.load(Relaxed) {
                let Some(batch) = source.next_batch()? else { break };
                call.report("load", batch.len() as u64, Unit::Rows)?;
                partitioner.add(&batch)?;
            }
            Ok(())
        };
        read().inspect_err(|_| stopped.store(true, Relaxed))?;
        Ok(partitioner.finish())
    })?;
    Ok(Partitioned::joined(threads))
}

impl Partitioned {
    /// Joins the rows of several threads or parts, partition by partition.
    pub(crate) fn joined(all: impl IntoIterator<Item = Partitioned>) -> Partitioned {
        let (by_id, by_partner_id): (Vec<_>, Vec<_>) =
            all.into_iter().map(|one| (one.by_id, one.by_partner_id)).unzip();
        Partitioned { by_id: joined(by_id), by_partner_id: joined(by_partner_id) }
    }
}

/// Joins the rows of several threads or parts, partition by partition.
fn joined(all: Vec<Vec<PartitionRows>>) -> Vec<PartitionRows> {
    let mut partitions: Vec<PartitionRows> =
        (0..HashPartition::COUNT).map(|_| PartitionRows::default()).collect();
    for one in all {
        for (joined, own) in partitions.iter_mut().zip(one) {
            joined.rows += own.rows;
            joined.chunks.extend(own.chunks);
        }
    }
    partitions
}
