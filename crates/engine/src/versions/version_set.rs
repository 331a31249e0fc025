//! The current version of a store, and how it changes.

use super::paths::{JOURNAL, SCRATCH, SEGMENTS};
use super::{FileNames, Manifest, OpenSegments, TableEntry, TableVersion, Version};
use crate::disk::{Disk, io_error};
use crate::memtable::Commit;
use crate::options::MemoryLimits;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{
    AtomicBool, AtomicU64, ExclusiveGuard, Rank, RankedGuard, RankedMutex, RankedRwLock,
    SharedGuard,
};
use arc_swap::ArcSwap;
use idmatch_model::{TableName, TableOptions};
use idmatch_store::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How far each journal file was read or written, by its number.
pub(crate) type JournalPositions = BTreeMap<u64, usize>;

/// The versions of a store: the current one, and the manifest that it is made of.
pub(crate) struct VersionSet {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    pub(crate) limits: MemoryLimits,
    current: ArcSwap<Version>,
    last_commit: AtomicU64,
    /// Held while the manifest or the current version changes.
    publish_lock: RankedMutex<JournalPositions>,
    /// The number of the next file; set whenever the writer lock is obtained.
    next_file: AtomicU64,
    /// Whether the manifest that is in place may not be durable.
    manifest_in_doubt: AtomicBool,
    file_pins: RankedRwLock,
}

impl VersionSet {
    /// A set of which nothing was read from disk yet.
    pub(crate) fn unopened(disk: Arc<dyn Disk>, root: &Path, limits: MemoryLimits) -> VersionSet {
        VersionSet {
            disk,
            root: root.to_owned(),
            limits,
            current: ArcSwap::from_pointee(Version::default()),
            last_commit: AtomicU64::new(0),
            publish_lock: RankedMutex::new(Rank::Publish, JournalPositions::new()),
            next_file: AtomicU64::new(0),
            manifest_in_doubt: AtomicBool::new(false),
            file_pins: RankedRwLock::new(Rank::FilePins),
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

    /// The folder of spill files, made if there is none.
    pub(crate) fn make_scratch(&self) -> Result<PathBuf> {
        let scratch = self.root.join(SCRATCH);
        self.disk.create_dir(&scratch).map_err(|e| io_error("make", &scratch, e))?;
        Ok(scratch)
    }

    /// The version that is published, as far as this process knows.
    pub(crate) fn current(&self) -> Arc<Version> {
        self.current.load_full()
    }

    /// The last commit that may be read. Asked after [`VersionSet::current`], so that the version has it.
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
    /// `TableNotFound`.
    pub(crate) fn table_of<'v>(
        &self,
        version: &'v Version,
        name: &TableName,
    ) -> Result<&'v Arc<TableVersion>> {
        version.tables.get(name).ok_or_else(|| {
            let root = self.root.display();
            Error::new(ErrorKind::TableNotFound, format!("{root} has no table {name}"))
        })
    }

    /// While this is held, this process removes no published file.
    pub(crate) fn pin_files(&self) -> SharedGuard<'_> {
        self.file_pins.read()
    }

    /// Waits until no file is pinned. Held while published files are removed.
    pub(crate) fn wait_for_unpinned_files(&self) -> ExclusiveGuard<'_> {
        self.file_pins.write()
    }

    /// Locks out every other change of the manifest and of the current version.
    pub(crate) fn lock_publish(&self) -> RankedGuard<'_, JournalPositions> {
        self.publish_lock.lock()
    }

    /// Makes a version the current one. Only while the publish lock is held.
    pub(crate) fn install(&self, version: Version) {
        self.current.store(Arc::new(version));
    }

    /// Opens what a manifest names.
    pub(crate) fn open_version(
        &self,
        manifest: Manifest,
        opened: &mut OpenSegments,
    ) -> Result<Version> {
        Version::open(&*self.disk, &self.segments(), manifest, &self.current(), opened)
    }

    /// Refuses options that differ from those of an existing table.
    pub(crate) fn check_options(&self, name: &TableName, options: &TableOptions) -> Result<()> {
        let version = self.current();
        let table = version.tables.get(name);
        table.map_or(Ok(()), |table| same_options(name, &table.options, options))
    }

    /// Whether a table exists, durably.
    pub(crate) fn has_table(&self, name: &TableName) -> bool {
        self.current().tables.contains_key(name) && !self.manifest_in_doubt.load(Relaxed)
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

    /// Has new files get numbers from this one on, at least.
    pub(crate) fn raise_next_file(&self, next: u64) {
        self.next_file.fetch_max(next, Relaxed);
    }

    /// Changes the manifest. The caller has the writer lock.
    pub(crate) fn publish(&self, change: impl FnOnce(&mut Manifest) -> Result<()>) -> Result<()> {
        let _publishing = self.lock_publish();
        self.publish_locked(change, |version| version)
    }

    /// The same for a caller that holds the publish lock; `adapt` may change the new version.
    pub(crate) fn publish_locked(
        &self,
        change: impl FnOnce(&mut Manifest) -> Result<()>,
        adapt: impl FnOnce(Version) -> Version,
    ) -> Result<()> {
        let published = self.published()?;
        let mut manifest = published.clone();
        change(&mut manifest)?;
        manifest.next_file = self.next_file.load(Relaxed);
        // Opened before it is published: a segment that cannot be read never is.
        let version = adapt(self.open_version(manifest.clone(), &mut self.current().opened())?);
        if manifest == published && !self.manifest_in_doubt.load(Relaxed) {
            self.install(version);
            return Ok(());
        }
        if let Err(e) = manifest.publish(&*self.disk, &self.root) {
            self.manifest_in_doubt.store(true, Relaxed);
            // The manifest may have been replaced nevertheless: the one on disk decides.
            if let Ok(now) = self.published()
                && now == manifest
            {
                self.install(version);
            }
            return Err(e);
        }
        self.manifest_in_doubt.store(false, Relaxed);
        self.install(version);
        Ok(())
    }

    /// The manifest on disk. A missing one means an empty store only if there never was one: the
    /// manifest decides which files are removed.
    pub(crate) fn published(&self) -> Result<Manifest> {
        match Manifest::read(&*self.disk, &self.root)? {
            Some(manifest) => Ok(manifest),
            None if self.current().manifest == Manifest::default() => Ok(Manifest::default()),
            None => Err(Error::new(
                ErrorKind::NotAStore,
                format!("{} has lost its MANIFEST; restore it from a backup", self.root.display()),
            )),
        }
    }

    /// Makes the names in the store's folder durable, and for a new store its own.
    pub(crate) fn sync_root(&self) -> Result<()> {
        let sync = |dir: &Path| self.disk.sync_dir(dir).map_err(|e| io_error("sync", dir, e));
        if self.current().manifest == Manifest::default() {
            let parent = self.root.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync(parent.unwrap_or(Path::new(".")))?;
        }
        sync(&self.root)
    }
}

impl Manifest {
    /// A table's entry, made if there is none.
    ///
    /// # Errors
    /// `TableExists` if there is one with other options.
    pub(crate) fn entry(
        &mut self,
        name: &TableName,
        options: &TableOptions,
    ) -> Result<&mut TableEntry> {
        let table = self
            .tables
            .entry(name.clone())
            .or_insert_with(|| TableEntry { options: options.clone(), ..TableEntry::default() });
        same_options(name, &table.options, options)?;
        Ok(table)
    }
}

fn same_options(name: &TableName, there: &TableOptions, wanted: &TableOptions) -> Result<()> {
    if there == wanted { Ok(()) } else { Err(Error::other_options(name, there, wanted)) }
}

impl fmt::Debug for VersionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionSet").field("root", &self.root).finish_non_exhaustive()
    }
}
