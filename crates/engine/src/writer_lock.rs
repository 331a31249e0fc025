//! The writer lock: one process writes a store at a time.
//!
//! It is an advisory file lock. Everything in the process that writes shares it; it is released with the last
//! of them. Its new holder catches up with the store and removes orphans. Must not know what is written.

use crate::disk::{Lock, io_error};
use crate::sync::Ordering::Relaxed;
use crate::sync::{self, AtomicBool, Rank, RankedMutex};
use crate::versions::{LOCK, VersionSet};
use idmatch_store::{Error, ErrorKind, Result};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A reader that removes orphans holds the lock for moments, and so does a store that was dropped
/// while it wrote; a writer waits 2 s for them.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Held while this process may write.
pub(crate) struct WriterGuard {
    _lock: Box<dyn Lock>,
}

/// Who may write.
pub(crate) struct WriterLock {
    versions: Arc<VersionSet>,
    /// The lock, as long as anything in this process has it.
    slot: RankedMutex<Weak<WriterGuard>>,
    /// Whether the store was closed for good.
    is_closed: AtomicBool,
    /// The process that opened the store.
    process: u32,
}

impl WriterLock {
    pub(crate) fn new(versions: Arc<VersionSet>) -> WriterLock {
        WriterLock {
            versions,
            slot: RankedMutex::new(Rank::WriterLock, Weak::new()),
            is_closed: AtomicBool::new(false),
            process: std::process::id(),
        }
    }

    /// Whether this process opened the store. A fork inherits files and locks as they were when it
    /// was made.
    pub(crate) fn is_own_process(&self) -> bool {
        std::process::id() == self.process
    }

    /// Has later writes fail.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Relaxed);
    }

    /// Refuses to write a store that was closed for good, and in a fork.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let root = self.versions.root.display();
        if self.is_closed.load(Relaxed) {
            let what = format!("the store {root} is closed; open it again");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        if !self.is_own_process() {
            let what = format!(
                "the store {root} was opened by process {}, of which this one is a fork; \
                 open it here to write it, after that process has closed it",
                self.process
            );
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Ok(())
    }

    /// Obtains the lock, or shares it with its holder in this process. The current version is then all
    /// that is published, and stays so.
    ///
    /// # Errors
    /// `Busy` if another process has it.
    pub(crate) fn acquire(&self) -> Result<Arc<WriterGuard>> {
        self.check_writable()?;
        let mut slot = self.slot.lock();
        if let Some(guard) = slot.upgrade() {
            return Ok(guard);
        }
        let versions = &self.versions;
        let segments = versions.segments();
        versions.disk.create_dir(&segments).map_err(|e| io_error("make", &segments, e))?;
        let guard = Arc::new(WriterGuard { _lock: self.lock_file()? });
        let mut positions = versions.lock_publish();
        let published = versions.published()?;
        versions.catch_up(&mut positions)?;
        versions.raise_next_file(published.next_file);
        // Nothing is removed, and nothing rests on the manifest, before its name is durable.
        versions.sync_root()?;
        for path in versions.orphans(&published)? {
            versions.disk.remove(&path).map_err(|e| io_error("remove", &path, e))?;
        }
        *slot = Arc::downgrade(&guard);
        Ok(guard)
    }

    /// The lock, if this process has it.
    pub(crate) fn held(&self) -> Option<Arc<WriterGuard>> {
        self.slot.lock().upgrade()
    }

    /// Takes over what other processes have published or upserted.
    pub(crate) fn refresh(&self) -> Result<()> {
        let slot = self.slot.lock();
        // The current version has what this process writes.
        if slot.strong_count() > 0 {
            return Ok(());
        }
        self.versions.catch_up(&mut self.versions.lock_publish())
    }

    /// Obtains the lock of the file.
    pub(crate) fn lock_file(&self) -> Result<Box<dyn Lock>> {
        let path = self.versions.root.join(LOCK);
        for attempt in 0..LOCK_TRIES {
            if attempt > 0 {
                sync::sleep(LOCK_PAUSE);
            }
            let lock =
                self.versions.disk.try_lock(&path).map_err(|e| io_error("lock", &path, e))?;
            if let Some(lock) = lock {
                return Ok(lock);
            }
        }
        Err(Error::new(
            ErrorKind::Busy,
            format!(
                "another process is writing {}; try again when it is done, reading is possible now",
                self.versions.root.display()
            ),
        ))
    }
}
