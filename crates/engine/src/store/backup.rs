//! Backups of a whole store at one point.

use super::owners::Owners;
use crate::disk::io_error;
use crate::identity::Hex64;
use crate::journal;
use crate::versions::{
    CopyKind, CopyOf, JOURNAL, JournalPosition, JournalPositions, LOCK, Manifest, SEGMENTS,
    StoreVersion, foreign_file,
};
use idmatch_model::SeenAt;
use idmatch_store::{Call, Error, ErrorKind, Result, Unit, now};
use std::io;
use std::path::{Path, PathBuf};

/// A backup of a store that another process writes may have to begin again.
const TRIES: u32 = 5;

/// The kind of a copy; without one it is a store of its own.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CopyPlan {
    pub(super) kind: Option<CopyKind>,
    /// The end of its life; `None` if it has none.
    pub(super) until: Option<SeenAt>,
}

impl Owners {
    /// Copies the current state to a new place, as a backup or as a store of its own.
    pub(crate) fn backup(
        &self,
        destination: &Path,
        kind: Option<CopyKind>,
        call: &Call,
    ) -> Result<u64> {
        self.copy(&self.outside(destination)?, CopyPlan { kind, until: None }, call)
    }

    /// An absolute path that is not in the store.
    pub(super) fn outside(&self, path: &Path) -> Result<PathBuf> {
        let path = std::path::absolute(path).map_err(|e| io_error("copy to", path, e))?;
        if path.starts_with(&self.versions.root) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("{} is in the store itself; name a folder outside of it", path.display()),
            ));
        }
        Ok(path)
    }

    /// Copies the current state to a new place. The manifest comes last, so that half a copy is no store.
    /// Nothing waits for the copy. Returns the bytes of the files, without the journal.
    pub(super) fn copy(&self, destination: &Path, plan: CopyPlan, call: &Call) -> Result<u64> {
        self.lock.check_writable()?;
        let mut tries = 0;
        loop {
            let point = self.versions.current().manifest.publication;
            let copied = self.copy_to(destination, plan, call);
            tries += 1;
            // Another process may have removed files that were still to be copied.
            let is_over = matches!(&copied, Err(e) if e.kind() == ErrorKind::Cancelled);
            if copied.is_ok()
                || is_over
                || tries == TRIES
                || self.versions.published()?.publication == point
            {
                return copied;
            }
            self.lock.refresh()?;
        }
    }

    fn copy_to(&self, destination: &Path, plan: CopyPlan, call: &Call) -> Result<u64> {
        let _collected = self.versions.collect_obsolete();
        if !self.versions.published()?.is_published() {
            return Err(Error::new(
                ErrorKind::NotAStore,
                format!(
                    "there is no store at {}; nothing was copied",
                    self.versions.root.display()
                ),
            ));
        }
        let has_note =
            self.versions.disk.read(&destination.join(LOCK)).is_ok_and(|n| !n.is_empty());
        if has_note || foreign_file(&*self.versions.disk, destination)?.is_some() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("{} is not empty; name a folder that is", destination.display()),
            ));
        }
        let (version, read) = self.writes.end_journal();
        let copy = || -> Result<u64> {
            let mut manifest = Manifest::clone(&version.manifest);
            self.copy_journal(&version, &read, destination, call)?;
            manifest.journal.closed = read.last_key_value().map(|(at, f)| (*at, f.end as u64));
            let (generation, at) = (manifest.generation, now().millis());
            manifest.generation += 1;
            manifest.publication = Hex64::random()?;
            manifest.copy_of = plan.kind.map(|kind| CopyOf {
                kind,
                generation,
                at,
                until: plan.until.map(SeenAt::millis),
                erasures_until: at,
            });
            let segments = destination.join(SEGMENTS);
            self.versions.disk.create_dir(&segments).map_err(|e| io_error("make", &segments, e))?;
            let mut total = 0;
            for file in version.manifest.files() {
                call.check()?;
                let (from, to) = (self.versions.segments().join(file), segments.join(file));
                let disk = &*self.versions.disk;
                let linked = || match plan.kind {
                    Some(CopyKind::Checkpoint) => disk.link(&from, &to),
                    _ => disk.link_or_copy(&from, &to),
                };
                let bytes = linked().and_then(|()| disk.len(&to));
                let bytes = bytes.map_err(|e| io_error("copy to", &to, e))?;
                total += bytes;
                call.report("back up", bytes, Unit::Bytes)?;
            }
            self.versions.disk.sync_dir(&segments).map_err(|e| io_error("sync", &segments, e))?;
            Manifest::publish(&*self.versions.disk, destination, &manifest.encode()?)?;
            Ok(total)
        };
        copy().inspect_err(|_| self.remove_begun_backup(&version, destination))
    }

    /// Copies each journal file as far as it was read: the bytes after that came after the point of the
    /// backup.
    fn copy_journal(
        &self,
        version: &StoreVersion,
        read: &JournalPositions,
        destination: &Path,
        call: &Call,
    ) -> Result<()> {
        if version.memtables.is_empty() {
            return Ok(());
        }
        let (from, to) = (self.versions.journal(), destination.join(JOURNAL));
        self.versions.disk.create_dir(&to).map_err(|e| io_error("make", &to, e))?;
        for (number, JournalPosition { end, .. }) in read {
            call.check()?;
            let (from, to) = (journal::file(&from, *number), journal::file(&to, *number));
            let bytes = self.versions.disk.read(&from).map_err(|e| io_error("read", &from, e))?;
            journal::check_end(&self.versions.journal(), *number, bytes.len(), *end as u64)?;
            let copy = || {
                let mut file = self.versions.disk.create(&to)?;
                file.write_all(bytes.get(..*end).unwrap_or_default())?;
                file.sync()
            };
            copy().map_err(|e| io_error("copy to", &to, e))?;
        }
        self.versions.disk.sync_dir(&to).map_err(|e| io_error("sync", &to, e))
    }

    /// Removes the files of a failed backup, best effort, so that the same backup can be tried again. The
    /// manifest is removed first. If it stays, so do the files: half a copy is never a store.
    fn remove_begun_backup(&self, version: &StoreVersion, destination: &Path) {
        match self.versions.disk.remove(&Manifest::path(destination)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {}
            _ => {
                let segments = destination.join(SEGMENTS);
                self.versions
                    .remove_files(version.manifest.files().iter().map(|file| segments.join(file)));
                let folder = destination.join(JOURNAL);
                self.versions.remove_files(
                    version.memtables.iter().map(|set| journal::file(&folder, set.journal)),
                );
            }
        }
    }
}
