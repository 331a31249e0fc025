//! The traits of the disk.

use super::io_error;
use idmatch_store::Result;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tracing::warn;

/// File operations. Paths are absolute or relative to the working directory.
pub trait Disk: Send + Sync + Debug {
    /// Whether all stores of a process see the same files through disks of this kind.
    fn is_shared(&self) -> bool {
        false
    }
    /// Device and inode of a directory; `None` if there is none.
    fn directory_id(&self, _dir: &Path) -> Option<(u64, u64)> {
        None
    }
    /// The kind of network file system that a path is on; `None` for a local one. For a path that does not
    /// exist yet, the file system of the nearest existing directory counts.
    fn network_file_system(&self, _path: &Path) -> io::Result<Option<&'static str>> {
        Ok(None)
    }
    /// Makes a directory and its parents. An existing directory is no error.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// The names in a directory, unordered. `NotFound` if there is none.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes a file to write from its start.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one.
    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>>;
    /// Makes a file without a name in a directory, for its owner only: to be written from its start, and to
    /// be read. It is removed with the process.
    ///
    /// # Errors
    /// `Unsupported` on a disk that has no such files.
    fn create_unnamed(&self, _dir: &Path) -> io::Result<(Box<dyn NewFile>, Box<dyn OpenFile>)> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Reads a whole small file.
    fn read(&self, file: &Path) -> io::Result<Vec<u8>>;
    /// Reads a file that may be growing, from an offset to its end.
    fn read_from(&self, file: &Path, offset: u64) -> io::Result<Vec<u8>>;
    /// Opens a file for reads at offsets.
    fn open(&self, file: &Path) -> io::Result<Box<dyn OpenFile>>;
    /// The bytes of a file.
    fn len(&self, file: &Path) -> io::Result<u64> {
        Ok(self.map(file)?.bytes().len() as u64)
    }
    /// Maps a whole file for random reads.
    fn map(&self, file: &Path) -> io::Result<Arc<dyn Mapped>>;
    /// Gives a file another name, replacing the file that had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, or copies it durably where links are not possible.
    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name.
    ///
    /// # Errors
    /// Also where the file system has no links, or another file system has the second name.
    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Removes a directory with all that is in it.
    fn remove_dir_all(&self, _dir: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Removes a file.
    fn remove(&self, file: &Path) -> io::Result<()>;
    /// Makes all bytes of a file durable, whoever wrote them.
    fn sync(&self, file: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes the advisory lock of a file, making the file if needed. `None` if the lock is held already.
    fn try_lock(&self, file: &Path) -> io::Result<Option<Box<dyn Lock>>>;
}

/// Makes a file to write from its start. It replaces a file that an earlier attempt may have left.
pub(crate) fn create_anew(disk: &dyn Disk, file: &Path) -> io::Result<Box<dyn NewFile>> {
    match disk.remove(file) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => disk.create(file),
    }
}

/// The bytes of a file; `None` if there is none.
///
/// # Errors
/// `Io`.
pub(crate) fn read_if_there(disk: &dyn Disk, file: &Path) -> Result<Option<Vec<u8>>> {
    match disk.read(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io_error("read", file, e)),
    }
}

/// Removes a file that is no longer needed, best effort: the next writer tries it again.
pub(crate) fn remove_unneeded(disk: &dyn Disk, file: &Path) {
    match disk.remove(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warn!(file = %file.display(), %error, "a file stays: the next writer removes it");
        }
        _ => {}
    }
}

/// A file being written.
pub trait NewFile: io::Write + Send {
    /// Makes everything written so far durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file that is read at offsets.
pub trait OpenFile: Send + Sync {
    /// Fills `piece` with the bytes from `offset` on; an error if the file ends before.
    fn read_at(&self, piece: &mut [u8], offset: u64) -> io::Result<()>;
}

/// A file as memory.
pub trait Mapped: Send + Sync {
    /// The whole file.
    fn bytes(&self) -> &[u8];
    /// Fetches a range in large requests and enters it into the page tables, in far fewer
    /// steps than one fault a page. Fails where the range cannot be read.
    fn populate(&self, range: Range<usize>) -> io::Result<()>;
    /// Takes a range out of the page tables, where this process was asked to give memory back. Its pages stay in
    /// the page cache, and come back when they are read again.
    fn give_back(&self, _: Range<usize>) {}
}

/// A lock that is held until dropped, and the small file that is locked.
pub trait Lock: Send + Sync {
    /// The content of the file.
    fn read(&self) -> io::Result<Vec<u8>>;
    /// Writes over the start of the file, without making it durable.
    fn write(&self, bytes: &[u8]) -> io::Result<()>;
}
