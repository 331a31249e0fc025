//! The right to write: one process has it, by an advisory lock, for as long as anything in it
//! needs it. Whoever obtains it removes what a killed writer left.

use super::Manifest;
use super::shared::{JOURNAL, SCRATCH, SEGMENTS, Shared};
use crate::disk::{Disk, Lock};
use crate::errors::io_error;
use crate::journal;
use crate::workers::lock;
use idmatch_store::{Error, ErrorKind, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const LOCK: &str = "LOCK";

/// A reader that cleans up holds the lock for moments, and so does a store that was dropped while it
/// wrote; a writer waits that long.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Held while this process may write.
pub(crate) struct Hold {
    _lock: Box<dyn Lock>,
}

impl Shared {
    /// Whether this is the process that opened the store, and no fork of it: what that knows of files
    /// and locks is of the moment of the fork.
    pub(super) fn is_own_process(&self) -> bool {
        std::process::id() == self.process
    }

    /// Refuses to write what was closed for good, and in a fork.
    pub(super) fn check_writable(&self) -> Result<()> {
        let root = self.root.display();
        if self.has_ended.load(Relaxed) {
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

    /// Obtains the right to write, or shares it with whoever in this process has it. The view
    /// is then all that there is, and stays so.
    ///
    /// # Errors
    /// `Busy` if another process has it.
    pub(super) fn hold(&self) -> Result<Arc<Hold>> {
        self.check_writable()?;
        let mut held = lock(&self.hold);
        if let Some(hold) = held.upgrade() {
            return Ok(hold);
        }
        let segments = self.segments();
        self.disk.create_dir(&segments).map_err(|e| io_error("make", &segments, e))?;
        let hold = Arc::new(Hold { _lock: self.lock()? });
        let mut read = lock(&self.publishing);
        let published = self.published()?;
        self.catch_up(&mut read)?;
        self.next_file.fetch_max(published.next_file, Relaxed);
        // Nothing is removed, and nothing rests on the manifest, before its name is durable.
        self.sync_root()?;
        for path in self.leftovers(&published)? {
            self.disk.remove(&path).map_err(|e| io_error("remove", &path, e))?;
        }
        *held = Arc::downgrade(&hold);
        Ok(hold)
    }

    /// Makes the names in the store's folder durable, and for a new store its own.
    pub(super) fn sync_root(&self) -> Result<()> {
        let sync = |dir: &Path| self.disk.sync_dir(dir).map_err(|e| io_error("sync", dir, e));
        if self.view().manifest == Manifest::default() {
            let parent = self.root.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync(parent.unwrap_or(Path::new(".")))?;
        }
        sync(&self.root)
    }

    /// Obtains the lock of the writer.
    pub(super) fn lock(&self) -> Result<Box<dyn Lock>> {
        let path = self.root.join(LOCK);
        for attempt in 0..LOCK_TRIES {
            if attempt > 0 {
                std::thread::sleep(LOCK_PAUSE);
            }
            let lock = self.disk.try_lock(&path).map_err(|e| io_error("lock", &path, e))?;
            if let Some(lock) = lock {
                return Ok(lock);
            }
        }
        Err(Error::new(
            ErrorKind::Busy,
            format!(
                "another process is writing {}; try again when it is done, reading is possible now",
                self.root.display()
            ),
        ))
    }

    /// Removes what a killed writer left, unless someone writes now or nothing may be removed here.
    pub(super) fn remove_leftovers_if_free(&self) {
        if self.leftovers(&self.view().manifest).is_ok_and(|files| files.is_empty()) {
            return;
        }
        if let Ok(Some(_lock)) = self.disk.try_lock(&self.root.join(LOCK))
            && let Ok(Some(manifest)) = Manifest::read(&*self.disk, &self.root)
            && self.disk.sync_dir(&self.root).is_ok()
        {
            self.remove_files(self.leftovers(&manifest).unwrap_or_default());
        }
    }

    /// Removes new segment files that are not published after all. Best effort, as all of
    /// these: whoever next obtains the right to write does it again.
    pub(super) fn remove_unpublished(&self, names: &[String]) {
        if let Ok(manifest) = self.published() {
            let published = manifest.files();
            let unnamed = names.iter().filter(|name| !published.contains(name.as_str()));
            self.remove_files(unnamed.map(|name| self.segments().join(name)));
        }
    }

    /// Removes what a load spilled.
    pub(super) fn remove_scratch(&self) {
        let scratch = self.root.join(SCRATCH);
        let names = self.disk.list(&scratch).unwrap_or_default();
        self.remove_files(names.iter().map(|name| scratch.join(name)));
    }

    pub(super) fn remove_files(&self, paths: impl IntoIterator<Item = PathBuf>) {
        for path in paths {
            self.disk.remove(&path).ok();
        }
    }

    /// Files in the store's folders that the manifest does not name.
    pub(super) fn leftovers(&self, manifest: &Manifest) -> Result<Vec<PathBuf>> {
        let named = manifest.files();
        let is_needed = |folder: &str, name: &str| match folder {
            SEGMENTS => named.contains(name),
            JOURNAL => journal::number_of(name).is_some_and(|n| n >= manifest.journal.first),
            _ => false,
        };
        let mut files = Vec::new();
        for folder in [SEGMENTS, SCRATCH, JOURNAL] {
            let path = self.root.join(folder);
            let names = list(&*self.disk, &path)?;
            let unnamed = names.iter().filter(|name| !is_needed(folder, name));
            files.extend(unnamed.map(|name| path.join(name)));
        }
        Ok(files)
    }
}

/// The names in a folder; none if there is no such folder.
pub(super) fn list(disk: &dyn Disk, folder: &Path) -> Result<Vec<String>> {
    match disk.list(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|e| io_error("list", folder, e)),
    }
}

/// A name in a folder that a first write, or a backup that failed, cannot have left there.
pub(super) fn first_foreign(disk: &dyn Disk, root: &Path) -> Result<Option<String>> {
    let begun = ["MANIFEST.new", LOCK, SEGMENTS, SCRATCH, JOURNAL];
    let foreign = list(disk, root)?.into_iter().find(|name| !begun.contains(&name.as_str()));
    let inside = |folder| list(disk, &root.join(folder)).map(|names| names.into_iter().next());
    Ok(match foreign {
        Some(name) => Some(name),
        None => inside(SEGMENTS)?.or(inside(JOURNAL)?),
    })
}
