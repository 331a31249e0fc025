//! Files that no manifest names: a killed writer left them, or an operation that failed.
//!
//! Where a writer finds no note of this store in LOCK, such files may be all that is left of a newer state. They
//! then stay until a person removes them: the note says so from then on ([`LockNote::kept_before`]).

use super::paths::{JOURNAL, LOCK, SCRATCH, SEGMENTS, list};
use super::{LockNote, Manifest, VersionSet};
use crate::disk::io_error;
use crate::file_name::any_file_number;
use crate::sync::Ordering::Relaxed;
use idmatch_store::Result;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

impl VersionSet {
    /// Takes over from the note of the last writer which unnamed files stay; `None` if there is no such note.
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
        files.extend(list(&*self.disk, &scratch)?.iter().map(|name| scratch.join(name)));
        Ok(files)
    }

    /// Unnamed files that stay, as the note in LOCK says.
    pub(crate) fn kept_files(&self) -> Result<Vec<PathBuf>> {
        let path = self.root.join(LOCK);
        let note = match self.disk.read(&path) {
            Ok(bytes) => LockNote::decode(&bytes),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(io_error("read", &path, e)),
        };
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

    /// Removes new segment files that were not published. Best effort, as all of these: the next holder
    /// of the writer lock does it again.
    pub(crate) fn remove_unpublished(&self, names: &[String]) {
        if let Ok(manifest) = self.published()
            && !self.is_replaced(&manifest)
        {
            let published = manifest.files();
            let unnamed = names.iter().filter(|name| !published.contains(name.as_str()));
            self.remove_files(unnamed.map(|name| self.segments().join(name)));
        }
    }

    /// Removes the spill files of a load.
    pub(crate) fn remove_scratch(&self) {
        let scratch = self.root.join(SCRATCH);
        let names = self.disk.list(&scratch).unwrap_or_default();
        self.remove_files(names.iter().map(|name| scratch.join(name)));
    }

    /// Removes files, best effort.
    pub(crate) fn remove_files(&self, paths: impl IntoIterator<Item = PathBuf>) {
        for path in paths {
            self.disk.remove(&path).ok();
        }
    }
}

/// The number of a file; 0 for one that has none.
fn number(path: &Path) -> u64 {
    path.file_name().and_then(OsStr::to_str).and_then(any_file_number).unwrap_or(0)
}
