//! Handles of a store. Those of one process share the owners of a directory, and so its writer.
//!
//! Each handle has its own durability, and is closed for itself. Must not know tables.
//!
//! Invariant: a process has one set of owners for a directory, unless the directory was replaced.

use super::owners::{Owners, StoreGuard};
use crate::disk::Disk;
use crate::options::MemoryLimits;
use crate::sync::Ordering::{AcqRel, Relaxed};
use crate::sync::{AtomicBool, Rank, RankedMutex, RwLock};
use idmatch_store::{Durability, Error, ErrorKind, Result};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// What one caller has opened.
#[derive(Debug)]
pub(super) struct StoreHandle {
    owners: Arc<StoreGuard>,
    is_closed: AtomicBool,
    /// What upserts promise unless they ask for more.
    durability: RwLock<Durability>,
}

/// The owners that live in this process.
static OPEN: RankedMutex<Vec<OpenStore>> = RankedMutex::new(Rank::Handles, Vec::new());

#[derive(Debug)]
struct OpenStore {
    root: PathBuf,
    /// Device and inode; `None` if the directory did not exist.
    directory: Option<(u64, u64)>,
    owners: Weak<StoreGuard>,
}

impl OpenStore {
    /// The owners of a directory that this process has opened. A fork has none.
    fn find(disk: &dyn Disk, root: &Path, open: &mut Vec<OpenStore>) -> Option<Arc<StoreGuard>> {
        if !disk.is_shared() {
            return None;
        }
        open.retain(|store| store.owners.strong_count() > 0);
        let here = disk.directory_id(root);
        let found = open.iter().find(|store| {
            match (store.directory.or_else(|| disk.directory_id(&store.root)), here) {
                (Some(there), Some(here)) => there == here,
                _ => store.root == root,
            }
        });
        found?.owners.upgrade().filter(|owners| owners.lock.is_own_process())
    }
}

impl StoreHandle {
    /// Opens a store, or shares it with the handles of this process. Shared owners keep their memory limits.
    ///
    /// # Errors
    /// Those of [`Owners::open`].
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        root: &Path,
        limits: MemoryLimits,
    ) -> Result<Arc<StoreHandle>> {
        let there = OpenStore::find(&*disk, root, &mut OPEN.lock());
        if let Some(owners) = &there
            && owners.is_still_there()?
        {
            owners.writes.give_up_failed();
            owners.lock.refresh()?;
            return Ok(StoreHandle::new(owners.clone()));
        }
        let owners = StoreGuard::new(Owners::open(disk.clone(), root, limits)?);
        if !disk.is_shared() {
            return Ok(StoreHandle::new(owners));
        }
        let mut open = OPEN.lock();
        // What the directory no longer has is found no more.
        open.retain(|store| {
            there.as_ref().is_none_or(|old| store.owners.as_ptr() != Arc::as_ptr(old))
        });
        // Another thread may have opened it meanwhile.
        if let Some(other) = OpenStore::find(&*disk, root, &mut open) {
            return Ok(StoreHandle::new(other));
        }
        let directory = disk.directory_id(root);
        open.push(OpenStore { root: root.to_owned(), directory, owners: Arc::downgrade(&owners) });
        Ok(StoreHandle::new(owners))
    }

    fn new(owners: Arc<StoreGuard>) -> Arc<StoreHandle> {
        owners.add_handle();
        Arc::new(StoreHandle {
            owners,
            is_closed: AtomicBool::new(false),
            durability: RwLock::default(),
        })
    }

    pub(super) fn durability(&self) -> Durability {
        *self.durability.read()
    }

    pub(super) fn set_durability(&self, durability: Durability) {
        *self.durability.write() = durability;
    }

    /// Refuses to write through a handle that was closed.
    pub(super) fn check_open(&self) -> Result<()> {
        if !self.is_closed.load(Relaxed) {
            return Ok(());
        }
        let what = format!("the store {} is closed; open it again", self.versions.root.display());
        Err(Error::new(ErrorKind::InvalidArgument, what))
    }

    /// Closes the handle for good; with the last one the writing of this process ends.
    pub(super) fn close(&self) -> Result<()> {
        let was_closed = self.is_closed.swap(true, AcqRel);
        match !was_closed && self.owners.remove_handle() {
            true => self.writes.close(),
            false => self.writes.sync_upserts(),
        }
    }
}

impl Drop for StoreHandle {
    fn drop(&mut self) {
        if !self.is_closed.load(Relaxed) {
            self.owners.remove_handle();
        }
    }
}

impl Deref for StoreHandle {
    type Target = Owners;
    fn deref(&self) -> &Owners {
        &self.owners
    }
}
