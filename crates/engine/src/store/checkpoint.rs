//! Checkpoints: one version of a store for readers in other processes, as a store that refuses writes for good.
//!
//! Its files are hard links, so that making one reads nothing but the journal. The name of a checkpoint in
//! the folder of the store has the instant from which the next writer removes it.

use super::backup::CopyPlan;
use super::owners::Owners;
use crate::disk::io_error;
use crate::erase::search;
use crate::file_name::file_number;
use crate::identity::Identity;
use crate::options::MemoryLimits;
use crate::versions::{
    CHECKPOINTS, CopyKind, JOURNAL, JournalPosition, JournalPositions, Manifest, SEGMENTS,
    StoreVersion, TableVersion, checkpoint_until, list,
};
use idmatch_model::{SeenAt, TableName, Target, Window};
use idmatch_store::{Call, Checkpoint, Error, ErrorKind, Result, now};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The shortest and the longest life of a checkpoint.
const SHORTEST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A checkpoint may have to be made again because of an erasure meanwhile.
const TRIES: u32 = 5;

/// Targets of an erasure that are searched for together in a checkpoint.
const TARGETS: usize = 1_000;

/// The point that a checkpoint shows: its own generation, which follows the generation of its version, and
/// the end of its journal.
type CheckpointPoint = (u64, Option<(u64, u64)>);

impl Owners {
    /// Makes a checkpoint of all that is published and committed by now. Returns an existing one of the same
    /// version if it lives for at least half of the time. The checkpoint shows no row that was erased before
    /// it is returned, unless that erasure reports the checkpoint.
    ///
    /// # Errors
    /// `InvalidArgument` for a time that is too short or too long, and for a destination that is taken; `Io` where
    /// files cannot be linked; `Busy` if another process erases faster than files are linked.
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
        self.lock.check_writable()?;
        for attempt in 1..=TRIES {
            // On the last attempt, erasures of this process wait.
            let _paused = (attempt == TRIES).then(|| self.eraser.pause(call)).transpose()?;
            self.lock.refresh()?;
            let until = after(keep)?;
            let path = match destination {
                Some(path) => self.outside(path)?,
                None => match self.checkpoint_of_now(after(keep / 2)?)? {
                    Some(there) => return Ok(there),
                    None => {
                        let name = format!("{:013}-{:?}", until.millis(), Identity::random()?);
                        self.versions.root.join(CHECKPOINTS).join(name)
                    }
                },
            };
            let plan = CopyPlan { kind: Some(CopyKind::Checkpoint), until: Some(until) };
            self.copy(&path, plan, call)?;
            let Some((_, made)) = self.describe(path)? else {
                let text = "the checkpoint was removed while it was made; make it again";
                return Err(Error::new(ErrorKind::NotAStore, text));
            };
            // An erasure reports the checkpoints that exist after it. It may have missed this one.
            match self.was_erased_since(&made) {
                Ok(false) => return Ok(made),
                other => {
                    self.versions.remove_checkpoint(&made.path)?;
                    other?;
                }
            }
        }
        let text = "another process erases rows faster than a checkpoint is made; make it again";
        Err(Error::new(ErrorKind::Busy, text))
    }

    /// A checkpoint of the current version that lives at least until `lasts`.
    fn checkpoint_of_now(&self, lasts: SeenAt) -> Result<Option<Checkpoint>> {
        let (version, read) = self.writes.end_journal();
        for one in self.checkpoints()?.into_iter().filter(|one| one.until >= lasts) {
            let is_same = self.is_of(&one, &version, &read).unwrap_or(false);
            // Another process may still be making it.
            if is_same && !self.was_erased_since(&one)? {
                return Ok(Some(one));
            }
        }
        Ok(None)
    }

    /// Whether the store has tombstones that a checkpoint does not have.
    fn was_erased_since(&self, made: &Checkpoint) -> Result<bool> {
        let published = self.versions.published()?;
        let copied = Manifest::read(&*self.versions.disk, &made.path, &published)?;
        let copied = copied.as_ref().map(tombstone_files).unwrap_or_default();
        Ok(!tombstone_files(&published).is_subset(&copied))
    }

    /// The checkpoints in the folder of the store that show rows which an erasure hides. A checkpoint that
    /// cannot be read, or is not searched because the call has ended, may show such rows, and counts. Cost:
    /// each checkpoint is opened, and searched until one row is found.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn checkpoints_showing(
        &self,
        table: &TableName,
        targets: &[Target],
        at: SeenAt,
        call: &Call,
    ) -> Result<Vec<Checkpoint>> {
        if targets.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = self.checkpoints().map_err(|e| {
            let text = "the rows are erased, but it is unknown which checkpoints show them";
            Error::because(text, e)
        })?;
        // The erasure has already reported its targets as progress.
        let quiet = call.clone().reporting(Arc::new(|_| ()));
        found.retain(|one| self.shows(one, table, targets, at, &quiet).unwrap_or(true));
        Ok(found)
    }

    fn shows(
        &self,
        one: &Checkpoint,
        name: &TableName,
        targets: &[Target],
        at: SeenAt,
        call: &Call,
    ) -> Result<bool> {
        let current = self.versions.current();
        let id = current.named(name).map(|table| table.row_rules.table);
        let frozen = Owners::open(self.versions.disk.clone(), &one.path, MemoryLimits::default())?;
        let (version, last) = frozen.versions.point();
        // The table may have had another name then, or this name another table.
        let is_it =
            |table: &TableVersion| table.name() == name || Some(table.row_rules.table) == id;
        for table in version.tables.values().filter(|table| is_it(table)) {
            let shown = table.visible_window(Window::ALL, one.at);
            for targets in targets.chunks(TARGETS) {
                let found = search((table, last), targets, (at, shown), call)?.erased;
                if found.by_id > 0 || found.by_partner_id > 0 {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The checkpoints in the folder of the store, oldest first. Of a checkpoint that cannot be read, only
    /// the path and the end are known.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        let folder = self.versions.root.join(CHECKPOINTS);
        let names = list(&*self.versions.disk, &folder)?;
        let mut found = Vec::new();
        for (name, until) in names.iter().filter_map(|name| Some((name, checkpoint_until(name)?))) {
            let path = folder.join(name);
            found.extend(match self.describe(path.clone()) {
                Ok(described) => described,
                Err(_) => {
                    let until = SeenAt::from_millis(i64::try_from(until).unwrap_or(i64::MAX))?;
                    Some(((0, None), Checkpoint { path, at: until, until, bytes: 0 }))
                }
            });
        }
        // Checkpoints of one millisecond are ordered by the point that they show, and then by their end.
        found.sort_by_key(|(point, one)| (one.at, *point, one.until));
        Ok(found.into_iter().map(|(_, one)| one).collect())
    }

    /// Removes a checkpoint of this store. It is no error if the checkpoint is already gone.
    ///
    /// # Errors
    /// `InvalidArgument` for a folder that is no checkpoint of this store; `Io`.
    pub(crate) fn remove_checkpoint(&self, path: &Path) -> Result<()> {
        let path = &std::path::absolute(path).map_err(|e| io_error("find", path, e))?;
        let name = path.file_name().and_then(|name| name.to_str());
        let is_here = path.parent() == Some(&self.versions.root.join(CHECKPOINTS))
            && name.and_then(checkpoint_until).is_some();
        if is_here || self.describe(path.clone())?.is_some() {
            return self.versions.remove_checkpoint(path);
        }
        let text = format!("{} is no checkpoint of this store", path.display());
        Err(Error::new(ErrorKind::InvalidArgument, text))
    }

    /// The checkpoint in a folder, and the point that it shows; `None` unless it is a checkpoint of this
    /// store.
    fn describe(&self, path: PathBuf) -> Result<Option<(CheckpointPoint, Checkpoint)>> {
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
        let point = (manifest.generation, manifest.journal.closed);
        Ok(Some((point, Checkpoint { path, at, until, bytes })))
    }

    fn read(&self, path: &Path, current: &StoreVersion) -> Result<Option<Manifest>> {
        Manifest::read(&*self.versions.disk, path, &current.manifest)
    }

    /// Whether a checkpoint shows this version.
    fn is_of(
        &self,
        one: &Checkpoint,
        version: &StoreVersion,
        read: &JournalPositions,
    ) -> Result<bool> {
        let Some(manifest) = self.read(&one.path, version)? else { return Ok(false) };
        let end = read.last_key_value();
        let closed = end.map(|(at, JournalPosition { end, .. })| (*at, *end as u64));
        let generation = manifest.copy_of.as_ref().map(|of| of.generation);
        Ok(generation == Some(version.manifest.generation) && manifest.journal.closed == closed)
    }
}

/// The names of all tombstone files.
fn tombstone_files(manifest: &Manifest) -> HashSet<&str> {
    manifest.files().into_iter().filter(|file| file_number(file, "era").is_some()).collect()
}
