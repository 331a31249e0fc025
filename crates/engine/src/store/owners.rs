//! The owners of a store's state, and the guard that ends their background work.
//!
//! Each owner is made with the owners that it needs, in this order: `VersionSet`, `WriterLock`, `Compactor`,
//! `WritePath`, `Eraser`, `BulkLoader`. So none knows a later one. All handles of one process share the
//! owners of a directory (`handle`). Must not know the requests of callers: `engine_store` and `snapshot`
//! give these to the owners.
//!
//! Invariants: opening a store changes nothing on disk, and refuses a folder that has other files. When the
//! last handle is dropped, background work ends soon, and with it the writer lock is released.

use crate::compaction::Compactor;
use crate::disk::Disk;
use crate::erase::Eraser;
use crate::load::BulkLoader;
use crate::options::MemoryLimits;
use crate::sync::{self, AtomicUsize, Ordering::AcqRel, millis};
use crate::versions::{Manifest, VersionSet, foreign_file};
use crate::write::WritePath;
use crate::writer_lock::WriterLock;
use idmatch_store::{Error, ErrorKind, Result};
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use tracing::{debug, warn};

/// The six owners of a store's state.
pub(crate) struct Owners {
    pub(crate) versions: Arc<VersionSet>,
    pub(crate) lock: Arc<WriterLock>,
    pub(crate) writes: Arc<WritePath>,
    pub(crate) compactor: Arc<Compactor>,
    pub(crate) eraser: Eraser,
    pub(crate) loader: BulkLoader,
}

impl Owners {
    /// Opens a store.
    ///
    /// # Errors
    /// `NotAStore`, `Corrupt`, `UnsupportedFormat`, `Io`.
    pub(crate) fn open(disk: Arc<dyn Disk>, root: &Path, limits: MemoryLimits) -> Result<Owners> {
        let began = sync::instant();
        let versions = Arc::new(VersionSet::unopened(disk, root, limits));
        let lock = Arc::new(WriterLock::new(versions.clone()));
        let no_store = |what: &str| {
            Err(Error::new(ErrorKind::NotAStore, format!("{} {what}", root.display())))
        };
        if Manifest::read(&*versions.disk, root, &Manifest::default())?.is_some() {
            lock.refresh()?;
        } else if lock.note().is_some() {
            return no_store("has lost its MANIFEST; restore it from a backup");
        } else if let Some(name) = foreign_file(&*versions.disk, root)? {
            return no_store(&format!(
                "is not a store: it has no MANIFEST, but it has {name:?}; name a store, or a \
                 folder that is empty or does not exist"
            ));
        }
        let compactor = Arc::new(Compactor::new(versions.clone(), lock.clone()));
        let writes = Arc::new(WritePath::new(versions.clone(), lock.clone(), compactor.clone()));
        let eraser = Eraser::new(versions.clone(), lock.clone(), writes.clone());
        let loader =
            BulkLoader::new(versions.clone(), lock.clone(), writes.clone(), compactor.clone());
        let version = versions.current();
        let segments: usize = version.tables.values().map(|t| t.all_segments().count()).sum();
        debug!(tables = version.tables.len(), segments, ms = millis(began), "store was opened");
        if let Ok(Some(kind)) = versions.disk.network_file_system(root) {
            warn!(
                kind,
                "store is on a network file system: readers may see an older state for a while"
            );
        }
        Ok(Owners { versions, lock, writes, compactor, eraser, loader })
    }
}

impl Owners {
    /// Whether the directory still has the store that was opened.
    ///
    /// # Errors
    /// The errors of reading a manifest.
    pub(super) fn is_still_there(&self) -> Result<bool> {
        let opened = &self.versions.current().manifest;
        let there = Manifest::read(&*self.versions.disk, &self.versions.root, opened)?;
        Ok(match there {
            // While this process writes, no other process publishes.
            Some(there) if self.lock.held().is_some() => there.publication == opened.publication,
            Some(there) => !opened.is_published() || there.store == opened.store,
            None => !opened.is_published(),
        })
    }
}

impl fmt::Debug for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.versions.fmt(f)
    }
}

/// Held by every store and table in use. When the last one is dropped without the store being closed,
/// background work ends soon, and the writer lock is released.
#[derive(Debug)]
pub(crate) struct StoreGuard {
    owners: Owners,
    /// Handles that are not closed.
    handles: AtomicUsize,
}

impl StoreGuard {
    pub(crate) fn new(owners: Owners) -> Arc<StoreGuard> {
        Arc::new(StoreGuard { owners, handles: AtomicUsize::new(0) })
    }

    pub(super) fn add_handle(&self) {
        self.handles.fetch_add(1, AcqRel);
    }

    /// Removes a handle; returns whether it was the last one.
    pub(super) fn remove_handle(&self) -> bool {
        self.handles.fetch_sub(1, AcqRel) == 1
    }
}

impl Deref for StoreGuard {
    type Target = Owners;
    fn deref(&self) -> &Owners {
        &self.owners
    }
}

impl Drop for StoreGuard {
    fn drop(&mut self) {
        self.writes.store_dropped();
    }
}
