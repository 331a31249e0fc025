//! Copies of a whole store at one point.

use super::Manifest;
use super::hold::first_foreign;
use super::shared::{JOURNAL, SEGMENTS, Shared};
use super::view::View;
use crate::errors::io_error;
use crate::journal;
use crate::workers::lock;
use idmatch_store::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A backup of a store that another process writes may have to begin again.
const TRIES: u32 = 5;

impl Shared {
    /// Copies what is visible now to a new place; its manifest comes last, so that half a copy is
    /// no store. Upserts wait while the journal is copied.
    pub(crate) fn backup(&self, destination: &Path) -> Result<()> {
        self.check_writable()?;
        let destination = &std::path::absolute(destination)
            .map_err(|e| io_error("back up to", destination, e))?;
        if destination.starts_with(&self.root) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "{} is in the store itself; name a folder outside of it",
                    destination.display()
                ),
            ));
        }
        let mut tries = 0;
        loop {
            let point = self.view().manifest.clone();
            let copied = self.copy_to(destination);
            tries += 1;
            // Another process may have removed files that were still to be copied.
            if copied.is_ok() || tries == TRIES || self.published()? == point {
                return copied;
            }
            self.refresh()?;
        }
    }

    fn copy_to(&self, destination: &Path) -> Result<()> {
        if Manifest::read(&*self.disk, &self.root)?.is_none() {
            return Err(Error::new(
                ErrorKind::NotAStore,
                format!("there is no store at {}; nothing was copied", self.root.display()),
            ));
        }
        if first_foreign(&*self.disk, destination)?.is_some() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("{} is not empty; name a folder that is", destination.display()),
            ));
        }
        let mut writer = lock(&self.writer);
        if let Some(writer) = writer.as_mut() {
            self.end_file(writer);
        }
        let _copying = self.files_stay();
        // Nobody removes files of the journal meanwhile.
        let read = lock(&self.publishing);
        drop(writer);
        let view = self.view();
        let copy = || -> Result<()> {
            let mut manifest = view.manifest.clone();
            self.copy_journal(&view, &read, destination)?;
            manifest.journal.closed = read.last_key_value().map(|(at, end)| (*at, *end as u64));
            drop(read);
            let segments = destination.join(SEGMENTS);
            self.disk.create_dir(&segments).map_err(|e| io_error("make", &segments, e))?;
            for file in view.manifest.files() {
                let (from, to) = (self.segments().join(file), segments.join(file));
                self.disk.link_or_copy(&from, &to).map_err(|e| io_error("copy to", &to, e))?;
            }
            self.disk.sync_dir(&segments).map_err(|e| io_error("sync", &segments, e))?;
            manifest.publish(&*self.disk, destination)
        };
        copy().inspect_err(|_| self.remove_begun_backup(&view, destination))
    }

    /// Copies each journal file as far as it was read: what follows came after the point.
    fn copy_journal(
        &self,
        view: &Arc<View>,
        read: &BTreeMap<u64, usize>,
        destination: &Path,
    ) -> Result<()> {
        if view.live.is_empty() {
            return Ok(());
        }
        let (from, to) = (self.journal(), destination.join(JOURNAL));
        self.disk.create_dir(&to).map_err(|e| io_error("make", &to, e))?;
        for (number, end) in read {
            let (from, to) = (journal::file(&from, *number), journal::file(&to, *number));
            let bytes = self.disk.read(&from).map_err(|e| io_error("read", &from, e))?;
            journal::check_end(&self.journal(), *number, bytes.len(), *end as u64)?;
            let copy = || {
                let mut file = self.disk.create(&to)?;
                file.write_all(bytes.get(..*end).unwrap_or_default())?;
                file.sync()
            };
            copy().map_err(|e| io_error("copy to", &to, e))?;
        }
        self.disk.sync_dir(&to).map_err(|e| io_error("sync", &to, e))
    }

    /// Best effort, so that the same backup can be tried again. The manifest goes first, and
    /// if it stays so do the files: half a copy is never a store.
    fn remove_begun_backup(&self, view: &View, destination: &Path) {
        match self.disk.remove(&Manifest::path(destination)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {}
            _ => {
                let segments = destination.join(SEGMENTS);
                self.remove_files(view.manifest.files().iter().map(|file| segments.join(file)));
                let folder = destination.join(JOURNAL);
                self.remove_files(view.live.iter().map(|set| journal::file(&folder, set.journal)));
            }
        }
    }
}
