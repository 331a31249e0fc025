//! A spill file: bytes that do not fit into memory, in a temporary file until they are read again.
//!
//! Every extent has a checksum. Must not know what the bytes are.

use crate::disk::{Disk, NewFile, OpenFile, io_error, place};
use crate::sync::Mutex;
use idmatch_store::{Error, ErrorKind, Result};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// A spill file, made when it is first written.
pub(crate) struct SpillFile {
    /// The path of the file, or the folder of a file that has no name.
    path: PathBuf,
    is_named: bool,
    writer: Mutex<Option<SpillWriter>>,
    /// Dropped with the file, since an open file keeps its disk space.
    reader: Mutex<Option<Arc<dyn OpenFile>>>,
}

/// The place of some bytes in a spill file.
pub(crate) struct Extent {
    offset: u64,
    pub(crate) len: usize,
    checksum: u64,
}

struct SpillWriter {
    file: Box<dyn NewFile>,
    len: u64,
}

impl SpillFile {
    pub(crate) fn new(path: PathBuf) -> SpillFile {
        SpillFile { path, is_named: true, writer: Mutex::new(None), reader: Mutex::new(None) }
    }

    /// A spill file without a name in a folder. Only its owner can read it. Its disk space is freed with this
    /// or with the process.
    pub(crate) fn unnamed(folder: PathBuf) -> SpillFile {
        SpillFile { is_named: false, ..SpillFile::new(folder) }
    }

    /// Appends bytes.
    pub(crate) fn write(&self, disk: &dyn Disk, bytes: &[u8]) -> Result<Extent> {
        let fail = |e| io_error("write", &self.path, e);
        let mut writer = self.writer.lock();
        let writer = match &mut *writer {
            Some(writer) => writer,
            none => {
                let file = self.create(disk).map_err(fail)?;
                none.insert(SpillWriter { file, len: 0 })
            }
        };
        writer.file.write_all(bytes).map_err(fail)?;
        let offset = writer.len;
        writer.len += bytes.len() as u64;
        Ok(Extent { offset, len: bytes.len(), checksum: XxHash3_64::oneshot(bytes) })
    }

    fn create(&self, disk: &dyn Disk) -> io::Result<Box<dyn NewFile>> {
        if self.is_named {
            return disk.create(&self.path);
        }
        let (writer, reader) = disk.create_unnamed(&self.path)?;
        *self.reader.lock() = Some(reader.into());
        Ok(writer)
    }

    /// Opens the file for reads, unless it is open.
    pub(crate) fn open(&self, disk: &dyn Disk) -> Result<()> {
        let mut reader = self.reader.lock();
        if reader.is_none() {
            *reader =
                Some(disk.open(&self.path).map_err(|e| io_error("read", &self.path, e))?.into());
        }
        Ok(())
    }

    /// Appends the bytes of an extent to `out`. The file is open.
    ///
    /// # Errors
    /// `Io`; `Corrupt` if the bytes are not as they were written.
    pub(crate) fn read(&self, extent: &Extent, out: &mut Vec<u8>) -> Result<()> {
        let changed = || self.damaged(extent, "changed");
        let reader = self.reader.lock().as_ref().map(Arc::clone).ok_or_else(changed)?;
        let start = out.len();
        out.resize(start + extent.len, 0);
        let bytes = out.get_mut(start..).unwrap_or_default();
        let read = reader.read_at(bytes, extent.offset);
        read.map_err(|e| io_error("read", &self.path, e))?;
        let is_good = XxHash3_64::oneshot(bytes) == extent.checksum;
        if is_good { Ok(()) } else { Err(changed()) }
    }

    /// The error of an extent that is not as it was written.
    pub(crate) fn damaged(&self, extent: &Extent, what: &str) -> Error {
        let (path, offset) = (&self.path, extent.offset as usize);
        let text = format!(
            "{}, offset {offset}: the temporary file {what}; check the disk and try again, the store is as it was",
            path.display()
        );
        Error::new(ErrorKind::Corrupt, text).with_fields(place(path, Some(offset)))
    }

    /// Removes a file with a name, if there is one. Nothing can be read any more.
    pub(crate) fn remove(&self, disk: &dyn Disk) -> Result<()> {
        if self.writer.lock().take().is_some() {
            self.reader.lock().take();
            disk.remove(&self.path).map_err(|e| io_error("remove", &self.path, e))?;
        }
        Ok(())
    }
}
