//! The disk of the operating system.
#![allow(clippy::disallowed_methods, reason = "the one place that may touch std::fs")]

use super::{Disk, Lock, Mapped, NewFile, OpenFile};
use crate::sync::{AtomicBool, Ordering::Relaxed};
use memmap2::{Advice, Mmap, UncheckedAdvice};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// The magic numbers of network file systems in Linux's `statfs`. FUSE is none in general.
const NETWORK_FILE_SYSTEMS: [(u32, &str); 9] = [
    (0x0000_6969, "NFS"),
    (0xfe53_4d42, "SMB2"),
    (0xff53_4d42, "CIFS"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x5346_414f, "AFS"),
    (0x0000_517b, "SMB"),
];

/// Real files.
#[derive(Debug, Default, Clone, Copy)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn is_shared(&self) -> bool {
        true
    }

    fn directory_id(&self, dir: &Path) -> Option<(u64, u64)> {
        fs::metadata(dir).ok().map(|found| (found.dev(), found.ino()))
    }

    fn network_file_system(&self, path: &Path) -> io::Result<Option<&'static str>> {
        let there = path.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
        // The magic numbers have 32 bits, whatever the type is.
        let magic = rustix::fs::statfs(there)?.f_type as u32;
        Ok(NETWORK_FILE_SYSTEMS.iter().find(|(number, _)| *number == magic).map(|(_, kind)| *kind))
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(dir)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(OsNewFile(File::create_new(file)?)))
    }

    fn create_unnamed(&self, dir: &Path) -> io::Result<(Box<dyn NewFile>, Box<dyn OpenFile>)> {
        // `O_TMPFILE`, or a new file of mode 600 whose name is removed at once.
        let file = tempfile::tempfile_in(dir)?;
        let reader = file.try_clone()?;
        Ok((Box::new(OsNewFile(file)), Box::new(OsOpenFile(reader))))
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        fs::read(file)
    }

    fn read_from(&self, file: &Path, offset: u64) -> io::Result<Vec<u8>> {
        let mut file = File::open(file)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn OpenFile>> {
        Ok(Box::new(OsOpenFile(File::open(file)?)))
    }

    fn len(&self, file: &Path) -> io::Result<u64> {
        Ok(fs::metadata(file)?.len())
    }

    fn map(&self, file: &Path) -> io::Result<Arc<dyn Mapped>> {
        let file = File::open(file)?;
        // SAFETY: the bytes of a mapping may change if another process writes the file. Files
        // that are mapped are immutable by design: nothing of ours opens them for writing
        // again, and every answer is checked against a checksum of the bytes it came from.
        #[allow(unsafe_code, reason = "mapping a file has no safe form")]
        let map = unsafe { Mmap::map(&file)? };
        map.advise(Advice::Random).ok();
        Ok(Arc::new(OsMapped(map)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        if fs::hard_link(from, to).is_ok() {
            return Ok(());
        }
        fs::copy(from, to)?;
        File::open(to)?.sync_all()
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(dir)
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        fs::remove_file(file)
    }

    fn sync(&self, file: &Path) -> io::Result<()> {
        File::open(file)?.sync_data()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn try_lock(&self, file: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let file =
            File::options().create(true).truncate(false).read(true).write(true).open(file)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(OsLock { file, process: std::process::id() }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }
}

struct OsNewFile(File);

impl Write for OsNewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewFile for OsNewFile {
    fn sync(&mut self) -> io::Result<()> {
        // Bytes and length; times do not matter.
        self.0.sync_data()
    }
}

struct OsOpenFile(File);

impl OpenFile for OsOpenFile {
    fn read_at(&self, piece: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(piece, offset)
    }
}

/// Whether this process gives memory of segments back once it has read them.
static GIVES_BACK: AtomicBool = AtomicBool::new(false);

/// Makes matches and scans of this process release the pages of segments that they have read. Schedulers
/// count these pages as memory of a worker, and end a worker that exceeds its limit. Cost: each match enters
/// the pages of cached files into the page tables again.
pub fn give_memory_back() {
    GIVES_BACK.store(true, Relaxed);
}

struct OsMapped(Mmap);

impl Mapped for OsMapped {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn populate(&self, range: Range<usize>) -> io::Result<()> {
        let (start, len) = (range.start, range.len());
        // These are only hints. Other reads of the mapping stay random.
        self.0.advise_range(Advice::Sequential, start, len).ok();
        let populated = self.0.advise_range(Advice::PopulateRead, start, len);
        self.0.advise_range(Advice::Random, start, len).ok();
        match populated {
            // Kernels before 5.14 do not know `PopulateRead`; page faults then enter the pages one by one.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
            done => done,
        }
    }

    fn give_back(&self, range: Range<usize>) {
        if !GIVES_BACK.load(Relaxed) || range.is_empty() {
            return;
        }
        // SAFETY: the mapping is shared and of a file that never changes: pages that are read again, here or by
        // another thread, have the same bytes.
        #[allow(unsafe_code, reason = "bytes that are borrowed stay what they are")]
        let advised = unsafe {
            self.0.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len())
        };
        // Only a hint.
        advised.ok();
    }
}

/// Unlocked when it is dropped, or when the process is killed. A fork shares the open file, and so the lock.
/// When the fork drops its copy, the lock stays; when the process that took the lock releases it, the fork's
/// copy does not keep it.
struct OsLock {
    file: File,
    process: u32,
}

impl Drop for OsLock {
    fn drop(&mut self) {
        if std::process::id() == self.process {
            self.file.unlock().ok();
        }
    }
}

impl Lock for OsLock {
    fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_name_is_in_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (mut writer, reader) = OsDisk.create_unnamed(folder.path()).unwrap();
        writer.write_all(b"0123456789").unwrap();
        let mut read = [0; 4];
        reader.read_at(&mut read, 3).unwrap();
        assert_eq!(&read, b"3456");
        assert_eq!(OsDisk.list(folder.path()).unwrap(), Vec::<String>::new());
        let missing = OsDisk.create_unnamed(&folder.path().join("none"));
        assert_eq!(missing.err().unwrap().kind(), io::ErrorKind::NotFound);
    }
}
