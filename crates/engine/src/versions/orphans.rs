//! Files that no manifest names: a killed writer left them, or an operation that failed.

use super::paths::{JOURNAL, SCRATCH, SEGMENTS, list};
use super::{Manifest, VersionSet};
use crate::journal;
use idmatch_store::Result;
use std::path::PathBuf;

impl VersionSet {
    /// Files in the store's folders that the manifest does not name, and no version of this process has.
    pub(crate) fn orphans(&self, manifest: &Manifest) -> Result<Vec<PathBuf>> {
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
            let unnamed = unnamed.map(|name| path.join(name));
            files.extend(unnamed.filter(|path| !self.reaper.is_pinned(path)));
        }
        Ok(files)
    }

    /// Removes new segment files that were not published. Best effort, as all of these: the next holder
    /// of the writer lock does it again.
    pub(crate) fn remove_unpublished(&self, names: &[String]) {
        if let Ok(manifest) = self.published() {
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
