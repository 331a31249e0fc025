//! A spill file: bytes that do not fit into memory, in a temporary file until they are read again.
//!
//! Every extent has a checksum. Must not know what the bytes are.

use crate::disk::{Disk, NewFile, OpenFile, io_error, place};
use crate::sync::Mutex;
use idmatch_store::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// A spill file, made when it is first written.
pub(crate) struct SpillFile {
    path: PathBuf,
    writer: Mutex<Option<Writer>>,
    /// Dropped with the file, since an open file keeps its disk space.
    reader: Mutex<Option<Arc<dyn OpenFile>>>,
}

/// Where some bytes are in a spill file.
pub(crate) struct Extent {
    offset: u64,
    pub(crate) len: usize,
    checksum: u64,
}

struct Writer {
    file: Box<dyn NewFile>,
    len: u64,
}

impl SpillFile {
    pub(crate) fn new(path: PathBuf) -> SpillFile {
        SpillFile { path, writer: Mutex::new(None), reader: Mutex::new(None) }
    }

    /// Appends bytes.
    pub(crate) fn write(&self, disk: &dyn Disk, bytes: &[u8]) -> Result<Extent> {
        let fail = |e| io_error("write", &self.path, e);
        let mut writer = self.writer.lock();
        let writer = match &mut *writer {
            Some(writer) => writer,
            none => {
                let file = disk.create(&self.path).map_err(fail)?;
                none.insert(Writer { file, len: 0 })
            }
        };
        writer.file.write_all(bytes).map_err(fail)?;
        let offset = writer.len;
        writer.len += bytes.len() as u64;
        Ok(Extent { offset, len: bytes.len(), checksum: XxHash3_64::oneshot(bytes) })
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
    /// `Io`; `Corrupt` if they are not those that were written.
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

    /// Opens the file and removes its name, so that its disk space is freed with this or with the process.
    pub(crate) fn unlink(&self, disk: &dyn Disk) -> Result<()> {
        let mut writer = self.writer.lock();
        if writer.is_some() {
            self.open(disk)?;
            disk.remove(&self.path).map_err(|e| io_error("remove", &self.path, e))?;
            *writer = None;
        }
        Ok(())
    }

    /// Removes the file if there is one. Nothing can be read any more.
    pub(crate) fn remove(&self, disk: &dyn Disk) -> Result<()> {
        if self.writer.lock().take().is_some() {
            self.reader.lock().take();
            disk.remove(&self.path).map_err(|e| io_error("remove", &self.path, e))?;
        }
        Ok(())
    }
}
