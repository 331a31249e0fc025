//! Published files, and their removal: a file is removed with the last version that names it.
//!
//! Every version holds the [`StoredFile`]s that it names. A publication marks the files that it no longer
//! names. The last holder of a marked file gives it to the [`Reaper`]. Writers remove files in their own
//! thread ([`Reaper::collect`]); where a reader was the last holder, a thread does. Must not know the content
//! of files.
//!
//! Invariant: a file is removed only by a holder of LOCK, and only while two things hold: the manifest in
//! place is known to this process, and does not name the file. A restore, or another process, may have put
//! another file of the same name there. Device and inode cannot tell: a backup has hard links to the same
//! files.

use super::Manifest;
use super::paths::LOCK;
use crate::disk::{Disk, Lock, remove_unneeded};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{self, AtomicBool, AtomicUsize, Instant, Mutex};
use idmatch_store::Status;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// A published file. Dropped with the last version that names it.
pub(crate) struct StoredFile {
    path: PathBuf,
    is_obsolete: AtomicBool,
    reaper: Arc<Reaper>,
}

/// Removes obsolete files.
pub(crate) struct Reaper {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    /// The manifest of the current version.
    known: Mutex<Arc<Manifest>>,
    /// The writer lock of this process, as long as it is held.
    lock: Mutex<Option<Weak<dyn Lock>>>,
    obsolete: Mutex<Vec<PathBuf>>,
    /// Obsolete files that a version of this process still has, and the time since which they are obsolete.
    pinned: Mutex<BTreeMap<PathBuf, Instant>>,
    /// Whether a thread is about to remove files.
    is_reaping: AtomicBool,
    /// The number of writers that will remove the files that become obsolete meanwhile.
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

    /// Notes that the published manifest does not name it any more.
    pub(crate) fn mark_obsolete(&self) {
        if !self.is_obsolete.swap(true, Relaxed) {
            self.reaper.pinned.lock().entry(self.path.clone()).or_insert_with(sync::instant);
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
    pub(crate) fn new(disk: Arc<dyn Disk>, root: &Path) -> Arc<Reaper> {
        Arc::new(Reaper {
            disk,
            root: root.to_owned(),
            known: Mutex::default(),
            lock: Mutex::new(None),
            obsolete: Mutex::default(),
            pinned: Mutex::default(),
            is_reaping: AtomicBool::new(false),
            collectors: AtomicUsize::new(0),
            process: std::process::id(),
        })
    }

    /// Sets the manifest of the current version.
    pub(super) fn know(&self, manifest: Arc<Manifest>) {
        *self.known.lock() = manifest;
    }

    /// Notes that this process has obtained the writer lock.
    pub(super) fn set_lock(&self, lock: &Arc<dyn Lock>) {
        *self.lock.lock() = Some(Arc::downgrade(lock));
    }

    /// The writer lock, if this process has it.
    pub(super) fn held(&self) -> Option<Arc<dyn Lock>> {
        self.lock.lock().as_ref().and_then(Weak::upgrade)
    }

    /// Whether a version of this process still has this file, which the manifest no longer names.
    pub(crate) fn is_pinned(&self, path: &Path) -> bool {
        self.pinned.lock().contains_key(path)
    }

    /// The obsolete files that versions of this process still keep. Cost: a look at each file, which is not
    /// read.
    pub(crate) fn status(&self) -> Status {
        let pinned = self.pinned.lock().clone();
        // A file that was removed meanwhile takes no space.
        let bytes = pinned.keys().filter_map(|path| self.disk.len(path).ok()).sum();
        let oldest = pinned.values().min().map(Instant::elapsed);
        Status { pinned_bytes: bytes, oldest_pinned: oldest, ..Status::default() }
    }

    /// Begins an operation of a writer. Its end removes the files that have become obsolete.
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
        if self.collectors.load(Acquire) == 0 && !self.is_reaping.swap(true, AcqRel) {
            let reaper = self.clone();
            if sync::spawn("idmatch-reaper", move || reaper.reap()).is_err() {
                self.reap();
            }
        }
    }

    /// Removes obsolete files, also files that become obsolete meanwhile: these start no thread of their own.
    fn reap(&self) {
        loop {
            let is_done = self.remove_obsolete().is_some();
            self.is_reaping.store(false, Release);
            let is_more = is_done && !self.obsolete.lock().is_empty();
            if !is_more || self.is_reaping.swap(true, AcqRel) {
                return;
            }
        }
    }

    /// Removes obsolete files; `None` if some are left. Best effort: the next holder of the writer lock
    /// removes these.
    fn remove_obsolete(&self) -> Option<()> {
        if self.obsolete.lock().is_empty() { Some(()) } else { self.remove_unnamed() }
    }

    /// Removes the obsolete files that the manifest does not name. `None` if it names some of them, or if it
    /// is unknown which it names. Then a thread that publishes meanwhile removes them.
    fn remove_unnamed(&self) -> Option<()> {
        let known = self.known.lock().clone();
        self.check_in_place(&known)?;
        let _lock = match self.held() {
            Some(lock) => lock,
            None => {
                let lock: Arc<dyn Lock> =
                    Arc::from(self.disk.try_lock(&self.root.join(LOCK)).ok()??);
                self.check_in_place(&known)?;
                lock
            }
        };
        let named = known.files();
        let paths = std::mem::take(&mut *self.obsolete.lock());
        let (named, unnamed): (Vec<_>, Vec<_>) =
            paths.into_iter().partition(|path| known.needs(&named, path));
        let is_all = named.is_empty();
        self.obsolete.lock().extend(named);
        for path in unnamed {
            remove_unneeded(&*self.disk, &path);
        }
        is_all.then_some(())
    }

    fn check_in_place(&self, known: &Manifest) -> Option<()> {
        let there = Manifest::publication_in(&*self.disk, &self.root).ok()??;
        (there == known.publication).then_some(())
    }
}

impl Drop for Collector<'_> {
    fn drop(&mut self) {
        self.0.collectors.fetch_sub(1, AcqRel);
        self.0.remove_obsolete();
    }
}
