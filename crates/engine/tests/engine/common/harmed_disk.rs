//! A disk on which one file has other bytes than were written.

use idmatch_engine::disk::{Disk, Lock, Mapped, NewFile, OpenFile, OsDisk};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Real files, but for one. For stores that are only read.
#[derive(Debug)]
pub(crate) struct HarmedDisk {
    path: PathBuf,
    bytes: Arc<Vec<u8>>,
}

impl HarmedDisk {
    pub(crate) fn new(path: &Path, bytes: Vec<u8>) -> HarmedDisk {
        HarmedDisk { path: path.to_owned(), bytes: Arc::new(bytes) }
    }
}

impl Disk for HarmedDisk {
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsDisk.list(dir)
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        if file == self.path { Ok(self.bytes.to_vec()) } else { OsDisk.read(file) }
    }

    fn read_from(&self, file: &Path, offset: u64) -> io::Result<Vec<u8>> {
        let bytes = self.read(file)?;
        Ok(bytes.get(offset as usize..).unwrap_or_default().to_vec())
    }

    fn map(&self, file: &Path) -> io::Result<Arc<dyn Mapped>> {
        if file == self.path { Ok(Arc::new(Memory(self.bytes.clone()))) } else { OsDisk.map(file) }
    }

    fn open(&self, _: &Path) -> io::Result<Box<dyn OpenFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn NewFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn link_or_copy(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn try_lock(&self, _: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

struct Memory(Arc<Vec<u8>>);

impl Mapped for Memory {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn populate(&self, _: Range<usize>) -> io::Result<()> {
        Ok(())
    }
}
