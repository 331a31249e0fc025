//! Real files of this process, with what a test adds to some operations: the one place that delegates all of them.

use idmatch_engine::disk::{Disk, Lock, Mapped, NewFile, OpenFile, OsDisk};
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What a test adds to real files.
pub(crate) trait Hooks: Debug + Send + Sync {
    /// Whether stores of this process share what they opened.
    const IS_SHARED: bool;

    /// Runs before a file is read as a whole, linked or made, which fails with its error.
    fn before(&self, _file: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Stands between the engine and a file that it makes.
    fn made(&self, _file: &Path, made: Box<dyn NewFile>) -> Box<dyn NewFile> {
        made
    }

    /// Runs before a file gets a second name, which fails with its error.
    fn before_link(&self) -> io::Result<()> {
        Ok(())
    }

    /// Runs before a file is removed.
    fn removing(&self, _file: &Path) {}

    /// Stands between the engine and a mapped file.
    fn mapped(&self, map: Arc<dyn Mapped>) -> Arc<dyn Mapped> {
        map
    }

    /// The network file system that all files are on.
    fn network(&self) -> Option<&'static str> {
        None
    }
}

/// Real files with hooks.
#[derive(Debug, Default)]
pub(crate) struct HookedDisk<H>(pub(crate) H);

impl<H: Hooks> Disk for HookedDisk<H> {
    fn is_shared(&self) -> bool {
        H::IS_SHARED
    }

    fn directory_id(&self, dir: &Path) -> Option<(u64, u64)> {
        OsDisk.directory_id(dir)
    }

    fn network_file_system(&self, _: &Path) -> io::Result<Option<&'static str>> {
        Ok(self.0.network())
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        self.0.before(file)?;
        OsDisk.read(file)
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.before(from)?;
        OsDisk.link_or_copy(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.before(from)?;
        self.0.before_link()?;
        OsDisk.link(from, to)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        OsDisk.create_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsDisk.list(dir)
    }

    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>> {
        self.0.before(file)?;
        OsDisk.create(file).map(|made| self.0.made(file, made))
    }

    fn create_unnamed(&self, dir: &Path) -> io::Result<(Box<dyn NewFile>, Box<dyn OpenFile>)> {
        OsDisk.create_unnamed(dir)
    }

    fn read_from(&self, file: &Path, offset: u64) -> io::Result<Vec<u8>> {
        OsDisk.read_from(file, offset)
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn OpenFile>> {
        OsDisk.open(file)
    }

    fn map(&self, file: &Path) -> io::Result<Arc<dyn Mapped>> {
        OsDisk.map(file).map(|map| self.0.mapped(map))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.rename(from, to)
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.0.removing(file);
        OsDisk.remove(file)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        OsDisk.remove_dir_all(dir)
    }

    fn sync(&self, file: &Path) -> io::Result<()> {
        OsDisk.sync(file)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        OsDisk.sync_dir(dir)
    }

    fn try_lock(&self, file: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        OsDisk.try_lock(file)
    }
}
