//! Matched partitions of a large population, in a spill file until they are read.
//!
//! Only identifiers with hits are kept. A partition is a sequence of
//! `identifier (see [`crate::encoding::record`]) | hits u32 | hits x (segment, block, first row, end row, 4 x u32)`.
//! In a positional match the number of the population row, a `u32`, is before each identifier.
//! The file has no name, so that it is removed with the process.

use super::hit::Hit;
use super::population::PopulationPartition;
use crate::disk::Disk;
use crate::encoding::bytes::u32_at;
use crate::encoding::record;
use crate::hash_partition::HashPartition;
use crate::spill_file::{Extent, SpillFile};
use idmatch_store::Result;

/// Bytes of a hit in the file.
const HIT_BYTES: usize = 16;

/// Matched partitions in a file.
pub(super) struct SpilledPartitions {
    file: SpillFile,
    partitions: Vec<Extent>,
    /// Whether the match is positional.
    positions: bool,
}

impl SpilledPartitions {
    /// Writes all partitions, ascending, with their hits, which are ordered by entry.
    ///
    /// # Errors
    /// `Io` with the path, if the system's folder for temporary files cannot take it.
    pub(super) fn write<'a>(
        disk: &dyn Disk,
        partitions: impl Iterator<Item = (&'a PopulationPartition, &'a [Hit])>,
        positions: bool,
    ) -> Result<SpilledPartitions> {
        let file = SpillFile::unnamed(std::env::temp_dir());
        let partitions: Result<Vec<Extent>> = partitions
            .map(|(population, hits)| file.write(disk, &encode(population, hits, positions)))
            .collect();
        Ok(SpilledPartitions { partitions: partitions?, file, positions })
    }

    /// Reads a partition with its hits.
    pub(super) fn read(&self, partition: HashPartition) -> Result<(PopulationPartition, Vec<Hit>)> {
        let Some(extent) = self.partitions.get(usize::from(partition.0)) else {
            return Ok((PopulationPartition::default(), Vec::new()));
        };
        let mut bytes = Vec::new();
        self.file.read(extent, &mut bytes)?;
        decode(bytes, self.positions).ok_or_else(|| self.file.damaged(extent, "is malformed"))
    }
}

fn encode(population: &PopulationPartition, hits: &[Hit], positions: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for hits in hits.chunk_by(|a, b| a.entry == b.entry) {
        let Some(entry) = hits.first().map(|hit| hit.entry) else { continue };
        let Some(key) = population.entry_key(entry) else { continue };
        if positions {
            let Some(row) = population.entry_row(entry) else { continue };
            bytes.extend_from_slice(&row.to_le_bytes());
        }
        record::push(&mut bytes, key);
        bytes.extend_from_slice(&(hits.len() as u32).to_le_bytes());
        for hit in hits {
            let rows = hit.rows();
            for number in [hit.segment, hit.block, rows.start, rows.end] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
    bytes
}

fn decode(bytes: Vec<u8>, positions: bool) -> Option<(PopulationPartition, Vec<Hit>)> {
    let (mut keys, mut hits) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        at += if positions { size_of::<u32>() } else { 0 };
        let (_, next) = record::read(&bytes, at)?;
        let entry = keys.len() as u32;
        keys.push(at as u32);
        at = next + 4;
        for _ in 0..u32_at(&bytes, next)? {
            let number = |n: usize| u32_at(&bytes, at + n * 4);
            hits.push(Hit::new(entry, number(0)?, number(1)?, number(2)?..number(3)?));
            at += HIT_BYTES;
        }
    }
    Some((PopulationPartition::of_records(bytes, &keys), hits))
}
