//! What a store and its tables share: the current view, and how it changes.
//!
//! Lock order: `erasing` or `loading`, `writer` (see `live`), `hold`, `publishing`, `view`. Whoever merges has
//! `compacting` and takes none of those before `publishing`; writers wait for merges (`wait_for_merges`).
//! A backup has `writer`, then `copying`, then `publishing`.

use super::group::Queue;
use super::hold::{Hold, first_foreign};
use super::live::Writer;
use super::manifest::TableEntry;
use super::view::{Opened, View};
use super::{Manifest, flush};
use crate::disk::Disk;
use crate::erasures::Rules;
use crate::errors::io_error;
use crate::limits::MemoryLimits;
use crate::load::{LoadPlace, load};
use crate::memtable::Commit;
use crate::names::FileNames;
use crate::workers::lock;
use idmatch_model::{Period, TableName, TableOptions};
use idmatch_store::{BatchSource, Durability, Error, ErrorKind, Ingest, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};

pub(super) const SEGMENTS: &str = "segments";
pub(super) const SCRATCH: &str = "scratch";
pub(super) const JOURNAL: &str = "journal";

pub(crate) struct Shared {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) root: PathBuf,
    pub(super) limits: MemoryLimits,
    view: RwLock<Arc<View>>,
    /// The last commit that readers see.
    pub(super) visible: AtomicU64,
    /// Held while the view or the manifest changes. Inside: how far each journal file was read.
    pub(super) publishing: Mutex<BTreeMap<u64, usize>>,
    /// Held while something is erased: nothing else changes the list of erasures.
    pub(super) erasing: Mutex<()>,
    /// One load at a time: it has the scratch folder for itself.
    pub(super) loading: Mutex<()>,
    /// The right to write, as long as anything in this process needs it.
    pub(super) hold: Mutex<Weak<Hold>>,
    /// The number of the next segment file; set whenever the right to write is obtained.
    pub(super) next_file: AtomicU64,
    /// What upserts promise unless they ask for more.
    pub(super) durability: RwLock<Durability>,
    pub(super) queue: Mutex<Queue>,
    pub(super) turn: Condvar,
    pub(super) writer: Mutex<Option<Writer>>,
    /// Whether a thread waits to sync, with `writer`; and how it is woken.
    pub(super) is_syncing: AtomicBool,
    pub(super) to_sync: Condvar,
    pub(super) flush: Mutex<flush::State>,
    pub(super) flushed: Condvar,
    /// Whether the manifest that is in place may not be durable.
    is_unsure: AtomicBool,
    /// Whether a thread waits for a time without flushes.
    pub(super) is_waiting_for_idle: AtomicBool,
    /// Held while segments are merged.
    pub(super) compacting: Mutex<()>,
    /// By how many segments a range has too many.
    pub(super) backlog: AtomicUsize,
    /// Held for writing while files are removed that a reader of files may be about to open.
    pub(super) copying: RwLock<()>,
    /// Set while what goes on in the background should end.
    pub(super) closing: AtomicBool,
    /// Set when the store was closed for good.
    pub(super) has_ended: AtomicBool,
    /// The process that opened the store.
    pub(super) process: u32,
}

/// Held by every store and table that is in use. When the last one is dropped without the store being
/// closed, what goes on in the background ends soon, and with it the right to write.
#[derive(Debug)]
pub(super) struct User(Arc<Shared>);

impl User {
    pub(super) fn new(shared: Arc<Shared>) -> Arc<User> {
        Arc::new(User(shared))
    }
}

impl Deref for User {
    type Target = Arc<Shared>;
    fn deref(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.closing.store(true, Relaxed);
        if !self.is_own_process() {
            // The lock may be held by a thread that this fork does not have.
            return;
        }
        // With the lock: whoever waits to sync has either seen it or is woken.
        drop(lock(&self.writer));
        self.to_sync.notify_all();
    }
}

impl Shared {
    pub(crate) fn open(disk: Arc<dyn Disk>, root: &Path, limits: MemoryLimits) -> Result<Shared> {
        let shared = Shared::unread(disk, root, limits);
        if Manifest::read(&*shared.disk, root)?.is_none() {
            if let Some(name) = first_foreign(&*shared.disk, root)? {
                return Err(Error::new(
                    ErrorKind::NotAStore,
                    format!(
                        "{} is not a store: it has no MANIFEST, but it has {name:?}; \
                         name a store, or a folder that is empty or does not exist",
                        root.display()
                    ),
                ));
            }
            return Ok(shared);
        }
        shared.refresh()?;
        shared.remove_leftovers_if_free();
        Ok(shared)
    }

    /// A store of which nothing was read yet.
    pub(super) fn unread(disk: Arc<dyn Disk>, root: &Path, limits: MemoryLimits) -> Shared {
        Shared {
            disk,
            root: root.to_owned(),
            limits,
            view: RwLock::new(Arc::new(View::default())),
            visible: AtomicU64::new(0),
            publishing: Mutex::default(),
            erasing: Mutex::new(()),
            loading: Mutex::new(()),
            hold: Mutex::default(),
            next_file: AtomicU64::new(0),
            durability: RwLock::default(),
            queue: Mutex::default(),
            turn: Condvar::new(),
            writer: Mutex::new(None),
            is_syncing: AtomicBool::new(false),
            to_sync: Condvar::new(),
            flush: Mutex::default(),
            flushed: Condvar::new(),
            is_unsure: AtomicBool::new(false),
            is_waiting_for_idle: AtomicBool::new(false),
            compacting: Mutex::new(()),
            backlog: AtomicUsize::new(0),
            copying: RwLock::new(()),
            closing: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            process: std::process::id(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn limits(&self) -> MemoryLimits {
        self.limits
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// While this is held, this process removes no file that is published.
    pub(crate) fn files_stay(&self) -> RwLockReadGuard<'_, ()> {
        self.copying.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is published, as far as this process knows.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last commit that may be read. Asked after [`Shared::view`], so that the view has it.
    pub(crate) fn visible(&self) -> Commit {
        self.visible.load(Acquire)
    }

    /// Shows a view to whoever asks from now on. Only while `publishing` is held.
    pub(super) fn show(&self, view: View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }

    pub(super) fn open_view(&self, manifest: Manifest, opened: &mut Opened) -> Result<View> {
        View::open(&*self.disk, &self.segments(), manifest, &self.view(), opened)
    }

    /// Refuses options that a table has not.
    pub(crate) fn check_options(&self, name: &TableName, options: &TableOptions) -> Result<()> {
        let view = self.view();
        view.tables.get(name).map_or(Ok(()), |table| same_options(name, &table.options, options))
    }

    pub(crate) fn create_table(&self, name: &TableName, options: &TableOptions) -> Result<()> {
        self.check_options(name, options)?;
        if self.view().tables.contains_key(name) && !self.is_unsure.load(Relaxed) {
            return Ok(());
        }
        let _hold = self.hold()?;
        self.publish(|manifest| entry(manifest, name, options).map(drop))
    }

    /// Makes a table unless it is there; then its options stay.
    pub(super) fn make_table(&self, name: &TableName, options: &TableOptions) -> Result<()> {
        let view = self.view();
        self.create_table(name, view.tables.get(name).map_or(options, |table| &table.options))
    }

    /// Chooses another retention for a table.
    pub(crate) fn set_retention(&self, name: &TableName, retention: Option<Period>) -> Result<()> {
        let _hold = self.hold()?;
        self.table_of(&self.view(), name)?;
        self.publish(|manifest| {
            if let Some(entry) = manifest.tables.get_mut(name) {
                entry.options.retention = retention;
            }
            Ok(())
        })
    }

    /// Loads into a table, which is made if there is none: all of the source is published, or
    /// nothing.
    pub(crate) fn load(
        &self,
        name: &TableName,
        options: &TableOptions,
        source: &mut dyn BatchSource,
        ingest: &Ingest<'_>,
    ) -> Result<()> {
        let _loading = lock(&self.loading);
        let _hold = self.hold()?;
        let scratch = self.root.join(SCRATCH);
        self.disk.create_dir(&scratch).map_err(|e| io_error("make", &scratch, e))?;
        let view = self.view();
        let there = view.tables.get(name).map(|table| &table.options);
        let options = there.unwrap_or(options);
        self.add_segments(
            |names| {
                let place = LoadPlace {
                    disk: &*self.disk,
                    segments: &self.segments(),
                    scratch: &scratch,
                    names,
                    limits: self.limits,
                };
                let rules = view.tables.get(name).map(|table| table.rules.clone());
                load(&place, &rules.unwrap_or(Rules::new(options.keep)), source, ingest)
            },
            |segments| {
                self.sync_upserts()?;
                self.publish(|manifest| {
                    let made_with = view.manifest.erasures(name);
                    entry(manifest, name, options)?.add(segments, made_with);
                    Ok(())
                })
            },
        )
        .inspect_err(|_| self.remove_scratch())?;
        self.merge_backlog();
        Ok(())
    }

    /// Makes segment files and publishes them. Where either fails, the files are removed.
    pub(super) fn add_segments<S>(
        &self,
        make: impl FnOnce(&FileNames<'_>) -> Result<S>,
        publish: impl FnOnce(S) -> Result<()>,
    ) -> Result<()> {
        let names = FileNames::new(&self.next_file);
        make(&names).and_then(publish).inspect_err(|_| self.remove_unpublished(&names.taken()))
    }

    /// Changes the manifest. Whoever calls this holds the right to write.
    pub(super) fn publish(&self, change: impl FnOnce(&mut Manifest) -> Result<()>) -> Result<()> {
        let _publishing = lock(&self.publishing);
        self.publish_locked(change, |view| view)
    }

    /// The same for those that hold `publishing`; `adapt` has the last word on the view.
    pub(super) fn publish_locked(
        &self,
        change: impl FnOnce(&mut Manifest) -> Result<()>,
        adapt: impl FnOnce(View) -> View,
    ) -> Result<()> {
        let published = self.published()?;
        let mut manifest = published.clone();
        change(&mut manifest)?;
        manifest.next_file = self.next_file.load(Relaxed);
        // Opened before it is published: a segment that cannot be read never is.
        let view = adapt(self.open_view(manifest.clone(), &mut self.view().opened())?);
        if manifest == published && !self.is_unsure.load(Relaxed) {
            self.show(view);
            return Ok(());
        }
        if let Err(e) = manifest.publish(&*self.disk, &self.root) {
            self.is_unsure.store(true, Relaxed);
            // It may have got as far as replacing the manifest: the one on disk decides.
            if let Ok(now) = self.published()
                && now == manifest
            {
                self.show(view);
            }
            return Err(e);
        }
        self.is_unsure.store(false, Relaxed);
        self.show(view);
        Ok(())
    }

    /// The manifest on disk. That there is none means an empty store only if there never was
    /// one: files are removed by its word.
    pub(super) fn published(&self) -> Result<Manifest> {
        match Manifest::read(&*self.disk, &self.root)? {
            Some(manifest) => Ok(manifest),
            None if self.view().manifest == Manifest::default() => Ok(Manifest::default()),
            None => Err(Error::new(
                ErrorKind::NotAStore,
                format!("{} has lost its MANIFEST; restore it from a backup", self.root.display()),
            )),
        }
    }

    pub(super) fn segments(&self) -> PathBuf {
        self.root.join(SEGMENTS)
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.root.join(JOURNAL)
    }
}

/// A table's entry, made if there is none.
fn entry<'m>(
    manifest: &'m mut Manifest,
    name: &TableName,
    options: &TableOptions,
) -> Result<&'m mut TableEntry> {
    let table = manifest
        .tables
        .entry(name.clone())
        .or_insert_with(|| TableEntry { options: options.clone(), ..TableEntry::default() });
    same_options(name, &table.options, options)?;
    Ok(table)
}

fn same_options(name: &TableName, there: &TableOptions, wanted: &TableOptions) -> Result<()> {
    if there == wanted {
        return Ok(());
    }
    let words = |options: &TableOptions| {
        let retention = options.retention.as_ref().map_or("none".to_owned(), ToString::to_string);
        format!("keep {:?} and retention {retention}", options.keep).to_lowercase()
    };
    Err(Error::new(
        ErrorKind::TableExists,
        format!(
            "table {name} exists with {}, asked for were {}; use it as it is, or another name",
            words(there),
            words(wanted)
        ),
    ))
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("root", &self.root).finish_non_exhaustive()
    }
}
