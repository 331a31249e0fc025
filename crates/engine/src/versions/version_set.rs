//! The current version of a store, and the means to change it: the publish lock, the numbers of new files,
//! and the last commit that readers see.
//!
//! `publish` writes a manifest and makes its version the current one. `catch_up` takes over what other
//! processes have published. The set also has the things that all owners share: the disk, memory limits,
//! metrics and background failures. Must not know who changes a version, and why.
//!
//! Invariants: the current version changes only under the publish lock. Readers take no lock: [`VersionSet::point`]
//! gives them a version and the last commit of one moment. File numbers only grow.

use super::paths::{JOURNAL, SEGMENTS, list};
use super::stored_file::{Collector, Reaper, StoredFile};
use super::table_version::OpenPlace;
use super::{FileNames, Manifest, MemtableSet, OpenSegments, StoreVersion, TableVersion};
use crate::background::Background;
use crate::disk::{Disk, Lock, io_error};
use crate::file_name::any_file_number;
use crate::identity::Identity;
use crate::journal;
use crate::memtable::Commit;
use crate::metrics::Metrics;
use crate::options::MemoryLimits;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicBool, AtomicU64, Rank, RankedGuard, RankedMutex};
use arc_swap::ArcSwap;
use idmatch_model::TableName;
use idmatch_store::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The position up to which each journal file was read or written, by its number.
pub(crate) type JournalPositions = BTreeMap<u64, JournalPosition>;

/// The position up to which a journal file was read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct JournalPosition {
    pub(crate) id: Identity,
    pub(crate) end: usize,
    /// The last commit in it.
    pub(crate) commit: Commit,
}

/// The versions of a store: the current one, and the manifest that it is made of.
pub(crate) struct VersionSet {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    pub(crate) limits: MemoryLimits,
    pub(crate) background: Background,
    pub(crate) metrics: Metrics,
    current: ArcSwap<StoreVersion>,
    last_commit: AtomicU64,
    /// Held while the manifest or the current version changes.
    publish_lock: RankedMutex<JournalPositions>,
    /// The number of the next file; set whenever the writer lock is obtained.
    pub(super) next_file: AtomicU64,
    /// Whether the manifest that is in place may not be durable.
    pub(super) manifest_in_doubt: AtomicBool,
    pub(crate) reaper: Arc<Reaper>,
    /// Files with smaller numbers that no manifest names stay; see `LockNote::kept_before`.
    pub(super) kept_before: AtomicU64,
}

impl VersionSet {
    /// A set that has read nothing from disk yet.
    pub(crate) fn unopened(disk: Arc<dyn Disk>, root: &Path, limits: MemoryLimits) -> VersionSet {
        VersionSet {
            reaper: Reaper::new(disk.clone(), root),
            disk,
            root: root.to_owned(),
            limits,
            background: Background::default(),
            metrics: Metrics::default(),
            current: ArcSwap::from_pointee(StoreVersion::default()),
            last_commit: AtomicU64::new(0),
            publish_lock: RankedMutex::new(Rank::Publish, JournalPositions::new()),
            next_file: AtomicU64::new(0),
            manifest_in_doubt: AtomicBool::new(false),
            kept_before: AtomicU64::new(0),
        }
    }

    /// The folder of segments.
    pub(crate) fn segments(&self) -> PathBuf {
        self.root.join(SEGMENTS)
    }

    /// The folder of the journal.
    pub(crate) fn journal(&self) -> PathBuf {
        self.root.join(JOURNAL)
    }

    /// The version that is published, as far as this process knows.
    pub(crate) fn current(&self) -> Arc<StoreVersion> {
        self.current.load_full()
    }

    /// The current version, and the last commit that it may be read up to: both of one moment. So a reader sees
    /// no publication without the commits before it. Cost: nanoseconds.
    pub(crate) fn point(&self) -> (Arc<StoreVersion>, Commit) {
        loop {
            let version = self.current();
            let last = self.last_commit();
            if Arc::ptr_eq(&version, &self.current.load()) {
                return (version, last);
            }
        }
    }

    /// The last commit that may be read.
    pub(crate) fn last_commit(&self) -> Commit {
        self.last_commit.load(Acquire)
    }

    /// Lets readers see the commits up to this one.
    pub(crate) fn set_last_commit(&self, commit: Commit) {
        self.last_commit.store(commit, Release);
    }

    /// A table of a version.
    ///
    /// # Errors
    /// `TableNotFound` if it was dropped.
    pub(crate) fn table_of<'v>(
        &self,
        version: &'v StoreVersion,
        id: Identity,
    ) -> Result<&'v Arc<TableVersion>> {
        version.tables.get(&id).ok_or_else(|| {
            let text = format!("{} has no table any more of that identity", self.root.display());
            Error::new(ErrorKind::TableNotFound, text)
        })
    }

    /// The table of a version that has this name.
    ///
    /// # Errors
    /// `TableNotFound`.
    pub(crate) fn table_named<'v>(
        &self,
        version: &'v StoreVersion,
        name: &TableName,
    ) -> Result<&'v Arc<TableVersion>> {
        version.named(name).ok_or_else(|| {
            let names: Vec<&str> = version.names.keys().map(TableName::as_str).collect();
            let there = match names.as_slice() {
                [] => "it has no tables".to_owned(),
                names => format!("it has {}", names.join(", ")),
            };
            let text = format!("{} has no table {name}; {there}", self.root.display());
            Error::new(ErrorKind::TableNotFound, text)
        })
    }

    /// Begins an operation that may drop the last version of a file; at its end the file is removed.
    pub(crate) fn collect_obsolete(&self) -> Collector<'_> {
        self.reaper.collect()
    }

    /// The empty memtables of a journal file. The file is removed with the last version that has them.
    pub(crate) fn new_memtable_set(&self, journal: u64, id: Identity) -> MemtableSet {
        let file = StoredFile::new(journal::file(&self.journal(), journal), &self.reaper);
        MemtableSet { journal, id, file, tables: BTreeMap::new() }
    }

    /// Locks out every other change of the manifest and of the current version.
    pub(crate) fn lock_publish(&self) -> RankedGuard<'_, JournalPositions> {
        self.publish_lock.lock()
    }

    /// Makes a version the current one. Only while the publish lock is held.
    pub(crate) fn install(&self, version: StoreVersion) {
        self.reaper.know(version.manifest.clone());
        self.current.store(Arc::new(version));
    }

    /// Opens the version of a manifest.
    pub(crate) fn open_version(
        &self,
        manifest: Manifest,
        opened: &mut OpenSegments,
    ) -> Result<StoreVersion> {
        let folder = &self.segments();
        let place = OpenPlace { disk: &*self.disk, folder, reaper: &self.reaper };
        StoreVersion::open(&place, manifest, &self.current(), opened)
    }

    /// Whether all publications are durable, as far as this process knows.
    pub(crate) fn is_durable(&self) -> bool {
        !self.manifest_in_doubt.load(Relaxed)
    }

    /// Makes segment files and publishes them. If either fails, the files are removed.
    pub(crate) fn add_segments<S>(
        &self,
        make: impl FnOnce(&FileNames<'_>) -> Result<S>,
        publish: impl FnOnce(S) -> Result<()>,
    ) -> Result<()> {
        let names = FileNames::new(&self.next_file);
        make(&names).and_then(publish).inspect_err(|_| self.remove_unpublished(&names.taken()))
    }

    /// Has later publications noted in the file of this lock, as long as it is held.
    pub(crate) fn note_with(&self, lock: &Arc<dyn Lock>) {
        self.reaper.set_lock(lock);
    }

    /// A number above the numbers of all files in the folder of segments.
    pub(crate) fn first_unused_number(&self) -> Result<u64> {
        let names = list(&*self.disk, &self.segments())?;
        let numbers = names.iter().filter_map(|name| any_file_number(name));
        Ok(numbers.max().map_or(0, |last| last.saturating_add(1)))
    }

    /// Has new files get numbers from this one on, at least.
    pub(crate) fn raise_next_file(&self, next: u64) {
        self.next_file.fetch_max(next, Relaxed);
    }

    /// Makes the names in the store's folder durable, and for a new store its own.
    pub(crate) fn sync_root(&self) -> Result<()> {
        let sync = |dir: &Path| self.disk.sync_dir(dir).map_err(|e| io_error("sync", dir, e));
        if !self.current().manifest.is_published() {
            let parent = self.root.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync(parent.unwrap_or(Path::new(".")))?;
        }
        sync(&self.root)
    }
}

impl fmt::Debug for VersionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionSet").field("root", &self.root).finish_non_exhaustive()
    }
}
