//! Handles of a store. Handles of one process share the owners of a directory, and so its writer.
//!
//! Each handle has its own durability, and is closed separately. Must not know tables.
//!
//! Invariant: a process has one set of owners for a directory, unless the directory was replaced. Owners that
//! were dropped may still flush: the next owners write after them.

use super::owners::{Owners, StoreGuard};
use crate::disk::Disk;
use crate::options::MemoryLimits;
use crate::sync::Ordering::{AcqRel, Relaxed};
use crate::sync::{AtomicBool, PerProcess, Rank, RankedMutex, RwLock};
use crate::writer_lock::WriterLock;
use idmatch_store::{Durability, Error, ErrorKind, Result};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// A store that one caller has opened.
#[derive(Debug)]
pub(super) struct StoreHandle {
    owners: Arc<StoreGuard>,
    is_closed: AtomicBool,
    /// The durability of upserts, unless a call asks for more.
    durability: RwLock<Durability>,
}

/// The owners that live in this process.
static OPEN: PerProcess<OpenStores> = PerProcess::new();

#[derive(Debug)]
struct OpenStores(RankedMutex<Vec<OpenStore>>);

impl Default for OpenStores {
    fn default() -> OpenStores {
        OpenStores(RankedMutex::new(Rank::Handles, Vec::new()))
    }
}

#[derive(Debug)]
struct OpenStore {
    root: PathBuf,
    /// Device and inode; `None` if the directory did not exist.
    directory: Option<(u64, u64)>,
    owners: Weak<StoreGuard>,
    /// Outlives the owners while their background work ends.
    lock: Weak<WriterLock>,
}

/// The location of a store: device and inode of the nearest directory that exists, and the path from there.
type StoreLocation = Option<((u64, u64), PathBuf)>;

fn location(disk: &dyn Disk, root: &Path) -> StoreLocation {
    root.ancestors()
        .find_map(|dir| Some((disk.directory_id(dir)?, root.strip_prefix(dir).ok()?.to_owned())))
}

impl OpenStore {
    /// The owners of a directory that this process has opened. A fork has none.
    fn find(disk: &dyn Disk, root: &Path, open: &mut Vec<OpenStore>) -> Option<Arc<StoreGuard>> {
        open.retain(|store| store.lock.strong_count() > 0);
        let found = OpenStore::all_of(disk, root, open).find_map(|store| store.owners.upgrade());
        found.filter(|owners| owners.lock.is_own_process())
    }

    /// The writer locks of owners of a directory that were dropped, and may still write.
    fn find_ending(disk: &dyn Disk, root: &Path, open: &[OpenStore]) -> Vec<Weak<WriterLock>> {
        let dropped = OpenStore::all_of(disk, root, open).filter(|s| s.owners.strong_count() == 0);
        dropped.map(|store| store.lock.clone()).collect()
    }

    fn all_of<'o>(
        disk: &'o dyn Disk,
        root: &Path,
        open: &'o [OpenStore],
    ) -> impl Iterator<Item = &'o OpenStore> {
        let here = if disk.is_shared() { location(disk, root) } else { None };
        open.iter().filter(move |store| {
            let directory = store.directory.map(|there| (there, PathBuf::new()));
            here.is_some() && directory.or_else(|| location(disk, &store.root)) == here
        })
    }
}

impl StoreHandle {
    /// Opens a store, or shares it with the handles of this process. Shared owners keep their memory limits.
    ///
    /// # Errors
    /// The errors of [`Owners::open`].
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        root: &Path,
        limits: MemoryLimits,
    ) -> Result<Arc<StoreHandle>> {
        let opened = OPEN.get();
        let OpenStores(opened) = &opened.1;
        let there = OpenStore::find(&*disk, root, &mut opened.lock());
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
        let mut open = opened.lock();
        // Owners of a store that the directory no longer has are not found any more.
        open.retain(|store| {
            there.as_ref().is_none_or(|old| store.owners.as_ptr() != Arc::as_ptr(old))
        });
        // Another thread may have opened it meanwhile.
        if let Some(other) = OpenStore::find(&*disk, root, &mut open) {
            return Ok(StoreHandle::new(other));
        }
        owners.lock.follow(OpenStore::find_ending(&*disk, root, &open));
        open.push(OpenStore {
            root: root.to_owned(),
            directory: disk.directory_id(root),
            owners: Arc::downgrade(&owners),
            lock: Arc::downgrade(&owners.lock),
        });
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
