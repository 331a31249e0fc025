//! The writer lock: one process writes a store at a time.
//!
//! It is an advisory file lock. Everything in the process that writes shares it. It is released with the last
//! of them, even where a fork still has the file open. Its new holder catches up with the store and removes
//! orphans. Must not know what a writer writes.

use crate::disk::{Lock, io_error, place};
use crate::sync::{self, Mutex, Rank, RankedMutex};
use crate::versions::{LOCK, LockNote, Manifest, StoreVersion, VersionSet};
use idmatch_model::SeenAt;
use idmatch_store::{Call, Error, ErrorFields, ErrorKind, Result};
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tracing::info;

/// A store that was dropped while it wrote holds the lock for moments: every writer waits this long.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// The pause between two attempts of a caller that waits longer.
const LONG_LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Held while this process may write.
pub(crate) struct WriterGuard {
    lock: Arc<dyn Lock>,
}

/// The writer lock of a store.
pub(crate) struct WriterLock {
    versions: Arc<VersionSet>,
    /// The lock, as long as anything in this process has it.
    slot: RankedMutex<Weak<WriterGuard>>,
    /// The locks of earlier owners of the store in this process, whose background work may not have ended.
    earlier: Mutex<Vec<Weak<WriterLock>>>,
    /// The process that opened the store.
    process: u32,
}

impl WriterLock {
    pub(crate) fn new(versions: Arc<VersionSet>) -> WriterLock {
        WriterLock {
            versions,
            slot: RankedMutex::new(Rank::WriterLock, Weak::new()),
            earlier: Mutex::default(),
            process: std::process::id(),
        }
    }

    /// Whether this process opened the store. A fork inherits files and locks as they were when it
    /// was made.
    pub(crate) fn is_own_process(&self) -> bool {
        std::process::id() == self.process
    }

    /// Refuses to write in a fork.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let root = self.versions.root.display();
        if !self.is_own_process() {
            let what = format!(
                "the store {root} was opened by process {}, of which this one is a fork; \
                 open it here to write it, after that process has closed it",
                self.process
            );
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        if self.versions.current().manifest.checkpoint_times().is_some() {
            let instead = "the same call on the store that it was made of".to_owned();
            let what = format!("{root} is a checkpoint, which is only read; write to its store");
            return Err(Error::new(ErrorKind::Unsupported, what)
                .with_fields(ErrorFields::Unsupported { instead }));
        }
        Ok(())
    }

    /// Obtains the lock for work that no call waits for; see [`WriterLock::acquire_for`].
    pub(crate) fn acquire(&self) -> Result<Arc<WriterGuard>> {
        self.acquire_for(&Call::default())
    }

    /// Obtains the lock, or shares it with its holder in this process. The current version then has all
    /// publications, and stays complete.
    ///
    /// # Errors
    /// `Busy` if another process has it for longer than the call waits; `Cancelled`.
    pub(crate) fn acquire_for(&self, call: &Call) -> Result<Arc<WriterGuard>> {
        self.check_writable()?;
        self.wait_for_earlier();
        self.repeat(call, || self.try_acquire())
    }

    /// Obtains the lock, unless another process has it.
    fn try_acquire(&self) -> Result<Option<Arc<WriterGuard>>> {
        // Held for one attempt only, since refreshes of readers take it, too.
        let mut slot = self.slot.lock();
        if let Some(guard) = slot.upgrade() {
            return Ok(Some(guard));
        }
        self.check_local()?;
        let versions = &self.versions;
        let segments = versions.segments();
        versions.disk.create_dir(&segments).map_err(|e| io_error("make", &segments, e))?;
        let Some(guard) = self.try_lock_file()? else { return Ok(None) };
        let mut positions = versions.lock_publish();
        let published = versions.published()?;
        let noted = self.noted(&guard, &published)?;
        if let Some(noted) = noted.filter(|noted| *noted > published.generation) {
            return Err(self.older_manifest(published.generation, noted));
        }
        versions.catch_up(&mut positions)?;
        versions.raise_next_file(published.next_file);
        versions.raise_next_file(versions.first_unused_number()?);
        // Nothing is removed, and nothing rests on the manifest, before its name is durable.
        versions.sync_root()?;
        if !published.is_published() {
            // The identity of the store is durable before any file has it.
            let manifest = Arc::new(Manifest::new()?);
            versions.install(StoreVersion::without_tables(manifest));
            versions.publish_locked(|_| Ok(()), |version| version)?;
        }
        let orphans = versions.orphans(&published)?;
        if !orphans.is_empty() {
            info!(files = orphans.len(), "files of writers that ended early are removed");
        }
        for path in orphans {
            match versions.disk.remove(&path) {
                // The file was removed meanwhile, with its last reader.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(|e| io_error("remove", &path, e))?,
            }
        }
        versions.remove_old_checkpoints();
        versions.remove_old_sessions();
        versions.end_dead_replaces()?;
        let version = versions.current();
        if noted.is_none() {
            self.note_first(&version.manifest)?;
        } else {
            versions.note_in_lock(&version.manifest).ok();
        }
        *slot = Arc::downgrade(&guard);
        Ok(Some(guard))
    }

    /// Lets this process write only after earlier owners. These write only until their background work has
    /// ended.
    pub(crate) fn follow(&self, earlier: Vec<Weak<WriterLock>>) {
        *self.earlier.lock() = earlier;
    }

    fn wait_for_earlier(&self) {
        let earlier = self.earlier.lock().clone();
        let is_writing =
            |lock: &Weak<WriterLock>| lock.upgrade().is_some_and(|lock| lock.is_writing());
        while earlier.iter().any(is_writing) {
            sync::sleep(LOCK_PAUSE);
        }
        self.earlier.lock().clear();
    }

    /// Whether background work of this process writes. A fork has none.
    fn is_writing(&self) -> bool {
        self.is_own_process() && self.held().is_some()
    }

    /// Refuses a store on a network file system: its locks and its syncs cannot be relied on.
    ///
    /// # Errors
    /// `Unsupported`; `Io`.
    pub(crate) fn check_local(&self) -> Result<()> {
        let root = &self.versions.root;
        let found = self.versions.disk.network_file_system(root);
        match found.map_err(|e| io_error("find the file system of", root, e))? {
            None => Ok(()),
            Some(kind) => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{} is on a network file system ({kind}), where a store can only be read; copy it \
                     to a local disk to write it, or use a store on servers",
                    root.display()
                ),
            )
            .with_fields(ErrorFields::Unsupported {
                instead: "the same call on a copy on a local disk".to_owned(),
            })),
        }
    }

    /// The note in LOCK, whoever holds the lock; `None` if it cannot be read.
    pub(crate) fn note(&self) -> Option<LockNote> {
        let path = self.versions.root.join(LOCK);
        let bytes = self.versions.disk.read(&path).ok()?;
        LockNote::decode(&path, &bytes).ok().flatten()
    }

    /// The generation that LOCK names as the last published one of this store; `None` without such a note.
    /// Without one, files that no manifest names now will not be removed.
    ///
    /// # Errors
    /// `UnsupportedFormat` for the note of a later version, which stays; `Io`.
    pub(crate) fn noted(&self, guard: &WriterGuard, published: &Manifest) -> Result<Option<u64>> {
        let path = self.versions.root.join(LOCK);
        let bytes = guard.lock.read().map_err(|e| io_error("read", &path, e))?;
        let note = LockNote::decode(&path, &bytes)?.filter(|note| note.store == published.store);
        self.versions.keep_unnamed(note.as_ref(), published)?;
        Ok(note.map(|note| note.generation))
    }

    /// Writes the first note, durably. Without a note, files that this writer leaves behind would stay for
    /// good.
    pub(crate) fn note_first(&self, manifest: &Manifest) -> Result<()> {
        let (versions, path) = (&self.versions, self.versions.root.join(LOCK));
        versions.note_in_lock(manifest)?;
        versions.disk.sync(&path).map_err(|e| io_error("sync", &path, e))
    }

    /// The error of a manifest that is older than the note in LOCK.
    pub(crate) fn older_manifest(&self, there: u64, noted: u64) -> Error {
        let path = Manifest::path(&self.versions.root);
        Error::new(
            ErrorKind::Corrupt,
            format!(
                "{}: the manifest is of generation {there}, but generation {noted} was published: an \
                 older MANIFEST was put back. Restore the store from a backup, or go on with this one \
                 by `verify --repair --accept-older`",
                path.display()
            ),
        )
        .with_fields(place(&path, None))
    }

    /// The lock, if this process has it.
    pub(crate) fn held(&self) -> Option<Arc<WriterGuard>> {
        self.slot.lock().upgrade()
    }

    /// Takes over publications and upserts of other processes.
    pub(crate) fn refresh(&self) -> Result<()> {
        let slot = self.slot.lock();
        // The current version already has all that this process writes.
        if slot.strong_count() > 0 {
            return Ok(());
        }
        self.versions.catch_up(&mut self.versions.lock_publish())
    }

    /// Obtains the lock of the file.
    pub(crate) fn lock_file(&self) -> Result<Arc<WriterGuard>> {
        self.repeat(&Call::default(), || self.try_lock_file())
    }

    fn try_lock_file(&self) -> Result<Option<Arc<WriterGuard>>> {
        let path = self.versions.root.join(LOCK);
        let lock = self.versions.disk.try_lock(&path).map_err(|e| io_error("lock", &path, e))?;
        Ok(lock.map(|lock| {
            let lock: Arc<dyn Lock> = Arc::from(lock);
            self.versions.note_with(&lock);
            Arc::new(WriterGuard { lock })
        }))
    }

    /// Repeats an attempt until it succeeds, or the call has waited long enough.
    fn repeat<T>(&self, call: &Call, attempt: impl Fn() -> Result<Option<T>>) -> Result<T> {
        let began = sync::instant();
        let mut is_told = false;
        loop {
            if let Some(obtained) = attempt()? {
                return Ok(obtained);
            }
            if !std::mem::replace(&mut is_told, true) {
                info!("another process has the store's lock: waiting for it");
            }
            let waited = sync::instant().saturating_duration_since(began);
            if waited >= call.writer_wait().max(LOCK_WAIT) {
                return Err(self.busy());
            }
            sync::sleep(if waited < LOCK_WAIT { LOCK_PAUSE } else { LONG_LOCK_PAUSE });
            call.check()?;
        }
    }

    /// The error of a store that another process writes. It names that process by the note in LOCK, if the
    /// note can be read.
    fn busy(&self) -> Error {
        let note = self.note();
        let since = note.as_ref().and_then(|note| SeenAt::from_millis(note.since as i64).ok());
        let who = note.as_ref().map_or("another process".to_owned(), |note| {
            let since = since.map_or(String::new(), |since| format!(", since {since}"));
            format!("process {} ({}{since})", note.pid, note.program)
        });
        let text = format!(
            "{who} is writing {}; try again when it is done, reading is possible now",
            self.versions.root.display()
        );
        Error::new(ErrorKind::Busy, text).with_fields(ErrorFields::Busy {
            pid: note.as_ref().map(|note| note.pid),
            program: note.map(|note| note.program),
            since,
        })
    }
}
