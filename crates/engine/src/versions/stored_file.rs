//! Published files, and their removal: a file goes when the last version that names it does.
//!
//! Every version holds the [`StoredFile`]s that it names. A publication marks those that it names no more.
//! The last holder of a marked file gives it to the [`Reaper`]. Writers remove files in their own thread
//! ([`Reaper::collect`]); where a reader was the last holder a thread does. Must not know what files are of.

use crate::disk::Disk;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::{self, AtomicBool, AtomicUsize, Mutex};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A published file. Dropped with the last version that names it.
pub(crate) struct StoredFile {
    path: PathBuf,
    is_obsolete: AtomicBool,
    reaper: Arc<Reaper>,
}

/// Removes obsolete files.
pub(crate) struct Reaper {
    disk: Arc<dyn Disk>,
    obsolete: Mutex<Vec<PathBuf>>,
    /// Obsolete files that a version of this process still has.
    pinned: Mutex<BTreeSet<PathBuf>>,
    /// How many writers will remove what becomes obsolete meanwhile.
    collectors: AtomicUsize,
    /// The process that opened the store: a fork removes nothing.
    process: u32,
}

/// While it lives, obsolete files wait; then they are removed.
pub(crate) struct Collector<'a>(&'a Reaper);

impl StoredFile {
    pub(crate) fn new(path: PathBuf, reaper: &Arc<Reaper>) -> Arc<StoredFile> {
        let is_obsolete = AtomicBool::new(false);
        Arc::new(StoredFile { path, is_obsolete, reaper: reaper.clone() })
    }

    /// Says that the published manifest does not name it any more.
    pub(crate) fn mark_obsolete(&self) {
        if !self.is_obsolete.swap(true, Relaxed) {
            self.reaper.pinned.lock().insert(self.path.clone());
        }
    }
}

impl Drop for StoredFile {
    fn drop(&mut self) {
        if self.is_obsolete.load(Relaxed) {
            self.reaper.take(std::mem::take(&mut self.path));
        }
    }
}

impl Reaper {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Arc<Reaper> {
        let (obsolete, pinned, collectors) =
            (Mutex::default(), Mutex::default(), AtomicUsize::new(0));
        Arc::new(Reaper { disk, obsolete, pinned, collectors, process: std::process::id() })
    }

    /// Whether a version of this process still has this file, which the manifest names no more.
    pub(crate) fn is_pinned(&self, path: &Path) -> bool {
        self.pinned.lock().contains(path)
    }

    /// Begins an operation of a writer, which removes what becomes obsolete at its end.
    pub(crate) fn collect(&self) -> Collector<'_> {
        self.collectors.fetch_add(1, AcqRel);
        Collector(self)
    }

    fn take(self: &Arc<Reaper>, path: PathBuf) {
        if std::process::id() != self.process {
            return;
        }
        self.pinned.lock().remove(&path);
        self.obsolete.lock().push(path);
        if self.collectors.load(Acquire) == 0 {
            let reaper = self.clone();
            if sync::spawn("idmatch-reaper", move || reaper.remove_obsolete()).is_err() {
                self.remove_obsolete();
            }
        }
    }

    /// Best effort: the next holder of the writer lock removes what is left.
    fn remove_obsolete(&self) {
        let paths = std::mem::take(&mut *self.obsolete.lock());
        for path in paths {
            self.disk.remove(&path).ok();
        }
    }
}

impl Drop for Collector<'_> {
    fn drop(&mut self) {
        self.0.collectors.fetch_sub(1, AcqRel);
        self.0.remove_obsolete();
    }
}
