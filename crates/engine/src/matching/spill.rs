//! Matched partitions of a large population, in a spill file until they are read.
//!
//! Only identifiers with hits are kept. A partition is a sequence of
//! `identifier (see [`crate::encoding::record`]) | hits u32 | hits x (segment, block, first row, end row, 4 x u32)`.
//! The file has no name once it is complete, so that it goes with the process.

use super::hit::Hit;
use super::population::PopulationPartition;
use crate::disk::{Disk, OpenFile};
use crate::disk::{corrupt, io_error};
use crate::encoding::bytes::u32_at;
use crate::encoding::record;
use crate::hash_partition::HashPartition;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use idmatch_store::Result;
use std::path::PathBuf;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// Bytes of a hit in the file.
const HIT_BYTES: usize = 16;

/// Matched partitions in a file.
pub(super) struct SpilledPartitions {
    path: PathBuf,
    file: Arc<dyn OpenFile>,
    partitions: Vec<Extent>,
}

/// Where a partition is in the file.
struct Extent {
    offset: u64,
    len: usize,
    checksum: u64,
}

impl SpilledPartitions {
    /// Writes all partitions, ascending, with their hits, which are ordered by entry.
    ///
    /// # Errors
    /// `Io` with the path, if the system's folder for temporary files cannot take it.
    pub(super) fn write<'a>(
        disk: &dyn Disk,
        partitions: impl Iterator<Item = (&'a PopulationPartition, &'a [Hit])>,
    ) -> Result<SpilledPartitions> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("idmatch-{}-{number}.tmp", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut extents = Vec::new();
        let write = || {
            let mut file = disk.create(&path)?;
            let mut offset = 0;
            for (population, hits) in partitions {
                let bytes = encode(population, hits);
                file.write_all(&bytes)?;
                extents.push(Extent {
                    offset,
                    len: bytes.len(),
                    checksum: XxHash3_64::oneshot(&bytes),
                });
                offset += bytes.len() as u64;
            }
            let file = disk.open(&path)?;
            disk.remove(&path)?;
            Ok(file)
        };
        let file = write().map_err(|e| {
            disk.remove(&path).ok();
            io_error("write", &path, e)
        })?;
        Ok(SpilledPartitions { path, file: file.into(), partitions: extents })
    }

    /// Reads a partition with its hits.
    pub(super) fn read(&self, partition: HashPartition) -> Result<(PopulationPartition, Vec<Hit>)> {
        let Some(extent) = self.partitions.get(usize::from(partition.0)) else {
            return Ok((PopulationPartition::default(), Vec::new()));
        };
        let mut bytes = vec![0; extent.len];
        self.file
            .read_at(&mut bytes, extent.offset)
            .map_err(|e| io_error("read", &self.path, e))?;
        let good =
            if XxHash3_64::oneshot(&bytes) == extent.checksum { decode(bytes) } else { None };
        good.ok_or_else(|| corrupt(&self.path, extent.offset as usize, "a temporary file changed"))
    }
}

fn encode(population: &PopulationPartition, hits: &[Hit]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for hits in hits.chunk_by(|a, b| a.entry == b.entry) {
        let Some(key) = hits.first().and_then(|hit| population.entry_key(hit.entry)) else {
            continue;
        };
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

fn decode(bytes: Vec<u8>) -> Option<(PopulationPartition, Vec<Hit>)> {
    let (mut keys, mut hits) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
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
