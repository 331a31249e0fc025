//! The spill files of a load. `partition` writes a buffer when it is full; `staged_write` writes parts that
//! exceed the session's memory. `pipeline` reads them to sort. A file has 16 hash partitions of one
//! direction.

use super::staging::StagingFiles;
use crate::disk::Disk;
use crate::hash_partition::HashPartition;
use crate::spill_file::{Extent, SpillFile};
use crate::sync::AtomicUsize;
use crate::sync::Ordering::Relaxed;
use idmatch_model::Side;
use idmatch_store::Result;
use std::sync::Arc;

/// Partitions that share a file. The file is removed when all of them have been written as segments.
const PARTITIONS_PER_FILE: usize = 16;

/// Rows of one partition, in memory or in a spill file.
pub(crate) enum SpillChunk {
    Memory(Vec<u8>),
    Spilled(Extent),
}

impl SpillChunk {
    pub(crate) fn len(&self) -> usize {
        match self {
            SpillChunk::Memory(rows) => rows.len(),
            SpillChunk::Spilled(extent) => extent.len,
        }
    }
}

/// All spill files of a load.
pub(crate) struct Spill {
    disk: Arc<dyn Disk>,
    /// Each file with the number of partitions that still need it.
    files: Vec<(SpillFile, AtomicUsize)>,
}

impl Spill {
    /// The spill files of a load among its other files. Each is made when it is first written.
    pub(crate) fn new(files: &StagingFiles) -> Spill {
        let spilled = Side::BOTH.iter().flat_map(|side| {
            (0..HashPartition::COUNT / PARTITIONS_PER_FILE).map(|number| {
                let path = files.path(&format!("{}-{number:02}.tmp", side.column()));
                (SpillFile::new(path), AtomicUsize::new(PARTITIONS_PER_FILE))
            })
        });
        Spill { disk: files.disk.clone(), files: spilled.collect() }
    }

    fn file(&self, side: Side, partition: HashPartition) -> Option<&(SpillFile, AtomicUsize)> {
        let half = match side {
            Side::Id => 0,
            Side::PartnerId => HashPartition::COUNT / PARTITIONS_PER_FILE,
        };
        self.files.get(half + usize::from(partition.0) / PARTITIONS_PER_FILE)
    }

    /// Writes rows of a partition to its file.
    pub(crate) fn write(
        &self,
        side: Side,
        partition: HashPartition,
        rows: &[u8],
    ) -> Result<SpillChunk> {
        match self.file(side, partition) {
            Some((file, _)) => file.write(&*self.disk, rows).map(SpillChunk::Spilled),
            None => Ok(SpillChunk::Memory(rows.to_vec())),
        }
    }

    /// Appends the rows of a chunk to `rows`.
    pub(crate) fn read(
        &self,
        side: Side,
        partition: HashPartition,
        chunk: &SpillChunk,
        rows: &mut Vec<u8>,
    ) -> Result<()> {
        match (chunk, self.file(side, partition)) {
            (SpillChunk::Memory(kept), _) => rows.extend_from_slice(kept),
            (SpillChunk::Spilled(extent), Some((file, _))) => {
                file.open(&*self.disk)?;
                file.read(extent, rows)?;
            }
            (SpillChunk::Spilled(_), None) => {}
        }
        Ok(())
    }

    /// Notes that a partition is no longer needed; the file is removed with its last partition.
    pub(crate) fn release(&self, side: Side, partition: HashPartition) -> Result<()> {
        match self.file(side, partition) {
            Some((file, left)) if left.fetch_sub(1, Relaxed) == 1 => file.remove(&*self.disk),
            _ => Ok(()),
        }
    }
}
