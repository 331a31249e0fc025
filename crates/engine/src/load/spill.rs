//! Spill files: rows of a load that do not fit into memory. A file is made when it is first needed.

use crate::disk::{Disk, NewFile, OpenFile};
use crate::disk::{corrupt, io_error};
use crate::hash_partition::HashPartition;
use crate::sync::Mutex;
use crate::sync::{AtomicUsize, Ordering::Relaxed};
use idmatch_model::Side;
use idmatch_store::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// Partitions that share a file. The file is removed when all of them have been written as segments.
const PARTITIONS_PER_FILE: usize = 16;

/// Rows of one partition, in memory or in a spill file.
pub(crate) enum Chunk {
    Memory(Vec<u8>),
    Spilled { offset: u64, len: usize, checksum: u64 },
}

impl Chunk {
    pub(crate) fn len(&self) -> usize {
        match self {
            Chunk::Memory(rows) => rows.len(),
            Chunk::Spilled { len, .. } => *len,
        }
    }
}

/// All spill files of a load.
pub(crate) struct Spill<'a> {
    disk: &'a dyn Disk,
    files: Vec<SpillFile>,
}

struct SpillFile {
    path: PathBuf,
    writer: Mutex<Option<Writer>>,
    /// Dropped with the file, since an open file keeps its disk space.
    reader: Mutex<Option<Arc<dyn OpenFile>>>,
    partitions_left: AtomicUsize,
}

struct Writer {
    file: Box<dyn NewFile>,
    len: u64,
}

impl<'a> Spill<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, folder: &Path) -> Spill<'a> {
        let files = Side::BOTH.iter().flat_map(|side| {
            (0..HashPartition::COUNT / PARTITIONS_PER_FILE).map(|number| SpillFile {
                path: folder.join(format!("load-{}-{number:02}.tmp", side.column())),
                writer: Mutex::new(None),
                reader: Mutex::new(None),
                partitions_left: AtomicUsize::new(PARTITIONS_PER_FILE),
            })
        });
        Spill { disk, files: files.collect() }
    }

    fn file(&self, side: Side, partition: HashPartition) -> Option<&SpillFile> {
        let half = match side {
            Side::Id => 0,
            Side::PartnerId => HashPartition::COUNT / PARTITIONS_PER_FILE,
        };
        self.files.get(half + usize::from(partition.0) / PARTITIONS_PER_FILE)
    }

    /// Writes rows of a partition to its file.
    pub(crate) fn write(&self, side: Side, partition: HashPartition, rows: &[u8]) -> Result<Chunk> {
        let Some(file) = self.file(side, partition) else {
            return Ok(Chunk::Memory(rows.to_vec()));
        };
        let fail = |e| io_error("write", &file.path, e);
        let mut writer = file.writer.lock();
        let writer = match &mut *writer {
            Some(writer) => writer,
            none => {
                let new = self.disk.create(&file.path).map_err(fail)?;
                none.insert(Writer { file: new, len: 0 })
            }
        };
        writer.file.write_all(rows).map_err(fail)?;
        let offset = writer.len;
        writer.len += rows.len() as u64;
        Ok(Chunk::Spilled { offset, len: rows.len(), checksum: XxHash3_64::oneshot(rows) })
    }

    /// Appends the rows of a chunk to `rows`.
    pub(crate) fn read(
        &self,
        side: Side,
        partition: HashPartition,
        chunk: &Chunk,
        rows: &mut Vec<u8>,
    ) -> Result<()> {
        let (offset, len, checksum) = match chunk {
            Chunk::Memory(kept) => {
                rows.extend_from_slice(kept);
                return Ok(());
            }
            Chunk::Spilled { offset, len, checksum } => (*offset, *len, *checksum),
        };
        let Some(file) = self.file(side, partition) else { return Ok(()) };
        let fail = |e| io_error("read", &file.path, e);
        let reader = match &mut *file.reader.lock() {
            Some(reader) => Arc::clone(reader),
            none => Arc::clone(none.insert(self.disk.open(&file.path).map_err(fail)?.into())),
        };
        let start = rows.len();
        rows.resize(start + len, 0);
        let piece = rows.get_mut(start..).unwrap_or_default();
        reader.read_at(piece, offset).map_err(fail)?;
        if XxHash3_64::oneshot(piece) != checksum {
            return Err(corrupt(&file.path, offset as usize, "a temporary file changed"));
        }
        Ok(())
    }

    /// Says that a partition is no longer needed; its file is removed with the last of them.
    pub(crate) fn release(&self, side: Side, partition: HashPartition) -> Result<()> {
        let Some(file) = self.file(side, partition) else { return Ok(()) };
        if file.partitions_left.fetch_sub(1, Relaxed) == 1 && file.writer.lock().take().is_some() {
            file.reader.lock().take();
            self.disk.remove(&file.path).map_err(|e| io_error("remove", &file.path, e))?;
        }
        Ok(())
    }
}
