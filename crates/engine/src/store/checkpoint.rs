//! Checkpoints: one version of a store for readers in other processes, as a store that refuses writes for good.
//!
//! Its files are hard links, so that making one reads nothing but the journal. Those in the folder of the store
//! have the instant in their name from which on they may go: the next writer removes them then.

use super::backup::CopyPlan;
use super::owners::Owners;
use crate::disk::io_error;
use crate::identity::Identity;
use crate::versions::{
    CHECKPOINTS, CopyKind, JOURNAL, JournalPosition, JournalPositions, Manifest, SEGMENTS, Version,
    checkpoint_until, list,
};
use idmatch_model::SeenAt;
use idmatch_store::{Call, Checkpoint, Error, ErrorKind, Result, now};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a checkpoint may live.
const SHORTEST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What a checkpoint shows: its own generation, which follows that of the version, and the end of its journal.
type Shown = (u64, Option<(u64, u64)>);

impl Owners {
    /// Makes a checkpoint of what is visible now, or returns one of the same version that lives for half of the
    /// time at least.
    ///
    /// # Errors
    /// `InvalidArgument` for a time that is too short or too long, and for a destination that is taken; `Io` where
    /// files cannot be linked.
    pub(crate) fn checkpoint(
        &self,
        destination: Option<&Path>,
        keep: Duration,
        call: &Call,
    ) -> Result<Checkpoint> {
        if !(SHORTEST..=LONGEST).contains(&keep) {
            let text = "a checkpoint is kept for a minute at least and 7 days at most";
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let after =
            |keep: Duration| SeenAt::from_millis(now().millis() as i64 + keep.as_millis() as i64);
        let until = after(keep)?;
        let path = match destination {
            Some(path) => self.outside(path)?,
            None => {
                let (version, read) = self.writes.end_journal();
                let lasts = after(keep / 2)?;
                let there = self.checkpoints()?.into_iter().filter(|one| one.until >= lasts);
                for one in there {
                    if self.is_of(&one, &version, &read)? {
                        return Ok(one);
                    }
                }
                let folder = self.versions.root.join(CHECKPOINTS);
                folder.join(format!("{:013}-{:?}", until.millis(), Identity::random()?))
            }
        };
        let plan = CopyPlan { kind: Some(CopyKind::Checkpoint), until: Some(until) };
        self.copy(&path, plan, call)?;
        self.describe(path)?.map(|(_, made)| made).ok_or_else(|| {
            let text = "the checkpoint was removed while it was made; make it again";
            Error::new(ErrorKind::NotAStore, text)
        })
    }

    /// The checkpoints in the folder of the store, oldest first.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub(crate) fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        let folder = self.versions.root.join(CHECKPOINTS);
        let names = list(&*self.versions.disk, &folder)?;
        let mut found = Vec::new();
        for name in names.iter().filter(|name| checkpoint_until(name).is_some()) {
            found.extend(self.describe(folder.join(name))?);
        }
        // Those of one millisecond by what they show, and by how long they stay.
        found.sort_by_key(|(shown, one)| (one.at, *shown, one.until));
        Ok(found.into_iter().map(|(_, one)| one).collect())
    }

    /// Removes a checkpoint of this store. One that is gone is fine.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no checkpoint of this store; `Io`.
    pub(crate) fn remove_checkpoint(&self, path: &Path) -> Result<()> {
        let path = &std::path::absolute(path).map_err(|e| io_error("find", path, e))?;
        let is_ours = self.describe(path.clone())?.is_some();
        let name = path.file_name().and_then(|name| name.to_str());
        let is_here = path.parent() == Some(&self.versions.root.join(CHECKPOINTS))
            && name.and_then(checkpoint_until).is_some();
        if is_ours || is_here {
            return self.versions.remove_checkpoint(path);
        }
        let text = format!("{} is no checkpoint of this store", path.display());
        Err(Error::new(ErrorKind::InvalidArgument, text))
    }

    /// What a folder has, and which version that shows; `None` unless it is a checkpoint of this store.
    fn describe(&self, path: PathBuf) -> Result<Option<(Shown, Checkpoint)>> {
        let current = self.versions.current();
        let Some(manifest) = self.read(&path, &current)? else { return Ok(None) };
        let Some((at, until)) = manifest.checkpoint_times() else { return Ok(None) };
        if manifest.store != current.manifest.store {
            return Ok(None);
        }
        let disk = &*self.versions.disk;
        let mut bytes = 0;
        let here = current.manifest.files();
        for file in manifest.files().difference(&here) {
            bytes += disk.len(&path.join(SEGMENTS).join(file)).unwrap_or_default();
        }
        for file in list(disk, &path.join(JOURNAL))? {
            bytes += disk.len(&path.join(JOURNAL).join(file)).unwrap_or_default();
        }
        let shown = (manifest.generation, manifest.journal.closed);
        Ok(Some((shown, Checkpoint { path, at, until, bytes })))
    }

    fn read(&self, path: &Path, current: &Version) -> Result<Option<Manifest>> {
        Manifest::read(&*self.versions.disk, path, &current.manifest)
    }

    /// Whether a checkpoint shows this version.
    fn is_of(&self, one: &Checkpoint, version: &Version, read: &JournalPositions) -> Result<bool> {
        let Some(manifest) = self.read(&one.path, version)? else { return Ok(false) };
        let end = read.last_key_value();
        let closed = end.map(|(at, JournalPosition { end, .. })| (*at, *end as u64));
        let generation = manifest.copy_of.as_ref().map(|of| of.generation);
        Ok(generation == Some(version.manifest.generation) && manifest.journal.closed == closed)
    }
}
