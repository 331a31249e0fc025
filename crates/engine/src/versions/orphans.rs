//! What dead processes leave, and the next writer removes: files that no manifest names, scratch files and
//! old checkpoints. It also ends the replaces of dead sessions.
//!
//! Where a writer finds no note of this store in LOCK, unnamed files may be all that is left of a newer
//! state. They then stay until a person removes them: later notes say so ([`LockNote::kept_before`]).

use super::paths::{
    CHECKPOINTS, JOURNAL, LOCK, SCRATCH, SEGMENTS, checkpoint_until, list, session_of, staging_lock,
};
use super::{LockNote, Manifest, VersionSet};
use crate::disk::{io_error, read_if_there, remove_unneeded};
use crate::file_name::any_file_number;
use crate::identity::Identity;
use crate::sync::Ordering::Relaxed;
use idmatch_store::{Result, now};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use tracing::warn;

impl VersionSet {
    /// Decides which unnamed files stay: those of the last writer's note, or all if there is no such note.
    pub(crate) fn keep_unnamed(&self, note: Option<&LockNote>, published: &Manifest) -> Result<()> {
        let unnamed = self.unnamed(published)?;
        let last = unnamed.iter().map(|path| number(path)).max();
        let is_kept = |limit: &u64| unnamed.iter().any(|path| number(path) < *limit);
        let kept_before = match note {
            Some(note) => Some(note.kept_before).filter(is_kept),
            None => last.map(|last| last.saturating_add(1)),
        };
        self.kept_before.store(kept_before.unwrap_or(0), Relaxed);
        self.raise_next_file(kept_before.unwrap_or(0));
        Ok(())
    }

    /// Files in the store's folders that neither the manifest names nor a version of this process has, and that
    /// may be removed.
    pub(crate) fn orphans(&self, manifest: &Manifest) -> Result<Vec<PathBuf>> {
        let scratch = self.root.join(SCRATCH);
        let kept_before = self.kept_before.load(Relaxed);
        let mut files = self.unnamed(manifest)?;
        files.retain(|path| number(path) >= kept_before);
        let staged = list(&*self.disk, &scratch)?;
        let mut live = Vec::new();
        for session in staged.iter().filter_map(|name| session_of(name)) {
            if self.is_locked(&scratch.join(format!("{session}.lock")))? {
                live.push(session);
            }
        }
        let is_dead = |name: &&String| !live.iter().any(|session| name.starts_with(session));
        files.extend(staged.iter().filter(is_dead).map(|name| scratch.join(name)));
        Ok(files)
    }

    /// Ends the replaces whose sessions are dead. Only while the publish lock is held.
    ///
    /// # Errors
    /// The errors of a publication.
    pub(crate) fn end_dead_replaces(&self) -> Result<()> {
        let version = self.current();
        let mut dead = Vec::new();
        for (id, entry) in &version.manifest.tables {
            if let Some(fence) = &entry.fence
                && !self.is_staging(fence.session)?
            {
                dead.push(*id);
            }
        }
        if dead.is_empty() {
            return Ok(());
        }
        let end = |manifest: &mut Manifest| {
            dead.iter().try_for_each(|id| {
                manifest.table_mut(*id)?.give_up_replace(None);
                Ok(())
            })
        };
        self.publish_locked(end, |version| version)
    }

    /// Removes checkpoints whose time is over. Best effort: the next writer does it again.
    pub(crate) fn remove_old_checkpoints(&self) {
        let folder = self.root.join(CHECKPOINTS);
        let is_over =
            |name: &String| checkpoint_until(name).is_some_and(|until| until < now().millis());
        for name in list(&*self.disk, &folder).unwrap_or_default().iter().filter(|n| is_over(n)) {
            if let Err(e) = self.remove_checkpoint(&folder.join(name)) {
                warn!(error = e.chain(), "a checkpoint stays: the next writer removes it");
            }
        }
    }

    /// Removes a checkpoint: first its manifest, so that the remaining files are no store.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove_checkpoint(&self, path: &Path) -> Result<()> {
        let gone = |done: io::Result<()>| match done {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(|e| io_error("remove", path, e)),
        };
        gone(self.disk.remove(&Manifest::path(path)))?;
        gone(self.disk.remove_dir_all(path))
    }

    /// Whether a write session lives, in this process or in another.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn is_staging(&self, session: Identity) -> Result<bool> {
        if self.session_folder(session).note()?.is_some() {
            return Ok(true);
        }
        let (folder, lock) = (self.root.join(SCRATCH), staging_lock(session));
        Ok(list(&*self.disk, &folder)?.contains(&lock) && self.is_locked(&folder.join(lock))?)
    }

    fn is_locked(&self, path: &Path) -> Result<bool> {
        let lock = self.disk.try_lock(path).map_err(|e| io_error("lock", path, e))?;
        Ok(lock.is_none())
    }

    /// Unnamed files that stay, as the note in LOCK says.
    pub(crate) fn kept_files(&self) -> Result<Vec<PathBuf>> {
        let path = self.root.join(LOCK);
        let bytes = read_if_there(&*self.disk, &path)?.unwrap_or_default();
        let note = LockNote::decode(&path, &bytes)?;
        let manifest = self.published()?;
        let note = note.filter(|note| note.store == manifest.store);
        let kept_before = note.map_or(u64::MAX, |note| note.kept_before);
        let mut files = match kept_before > 0 && manifest.is_published() {
            true => self.unnamed(&manifest)?,
            false => Vec::new(),
        };
        files.retain(|path| number(path) < kept_before);
        files.sort();
        Ok(files)
    }

    /// Segment and journal files that neither the manifest names nor a version of this process has.
    fn unnamed(&self, manifest: &Manifest) -> Result<Vec<PathBuf>> {
        let named = manifest.files();
        let mut files = Vec::new();
        for folder in [SEGMENTS, JOURNAL] {
            let folder = self.root.join(folder);
            let names = list(&*self.disk, &folder)?;
            files.extend(names.iter().map(|name| folder.join(name)));
        }
        files.retain(|path| !manifest.needs(&named, path) && !self.reaper.is_pinned(path));
        Ok(files)
    }

    /// Removes new segment files that were not published. Best effort, like the other removals: the next
    /// holder of the writer lock does it again.
    pub(crate) fn remove_unpublished(&self, names: &[String]) {
        if let Ok(manifest) = self.published()
            && !self.is_replaced(&manifest)
        {
            let published = manifest.files();
            let unnamed = names.iter().filter(|name| !published.contains(name.as_str()));
            self.remove_files(unnamed.map(|name| self.segments().join(name)));
        }
    }

    /// Removes files, best effort.
    pub(crate) fn remove_files(&self, paths: impl IntoIterator<Item = PathBuf>) {
        for path in paths {
            remove_unneeded(&*self.disk, &path);
        }
    }
}

/// The number of a file; 0 for a file without a number.
fn number(path: &Path) -> u64 {
    path.file_name().and_then(OsStr::to_str).and_then(any_file_number).unwrap_or(0)
}
