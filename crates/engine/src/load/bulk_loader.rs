//! The bulk loader: begins write sessions, sorts their staged rows, and publishes these in one change of the
//! manifest.
//!
//! Invariant: no lock is held while a source is pulled, except by a session that locks out other processes.

use super::partition::{Partitioned, Sides};
use super::pipeline::{LoadPlace, sort};
use super::shared_write::SharedWrite;
use super::staged_write::{Phase, Sorted, StagedWrite};
use super::staging::StagingFiles;
use crate::compaction::Compactor;
use crate::disk::io_error;
use crate::identity::Identity;
use crate::segment::SegmentInfo;
use crate::sync::{AtomicU64, Ordering::Relaxed, Rank, RankedGuard, RankedMutex};
use crate::versions::{Fence, FileNames, VersionSet};
use crate::write::WritePath;
use crate::writer_lock::WriterLock;
use idmatch_store::{
    Call, Committed, Error, ErrorKind, NewWrite, PartReceipt, Result, Sharing, WriteKind, now,
};
use std::sync::Arc;

/// Loads into the tables of a store.
pub(crate) struct BulkLoader {
    pub(super) versions: Arc<VersionSet>,
    pub(super) lock: Arc<WriterLock>,
    writes: Arc<WritePath>,
    compactor: Arc<Compactor>,
    /// Held while rows are sorted: one sort at a time has the memory for it.
    sorting: RankedMutex<()>,
}

impl BulkLoader {
    pub(crate) fn new(
        versions: Arc<VersionSet>,
        lock: Arc<WriterLock>,
        writes: Arc<WritePath>,
        compactor: Arc<Compactor>,
    ) -> BulkLoader {
        let sorting = RankedMutex::new(Rank::Operation, ());
        BulkLoader { versions, lock, writes, compactor, sorting }
    }

    /// Waits for the memory to sort rows. A load needs it, and so does a repair.
    ///
    /// # Errors
    /// `Cancelled`.
    pub(crate) fn lock_sorting(&self, call: &Call) -> Result<RankedGuard<'_, ()>> {
        self.sorting.lock_while(|| call.check())
    }

    /// Begins a session.
    ///
    /// # Errors
    /// `TableNotFound`; `InvalidArgument` for the key of another kind of write; `Busy` while another process
    /// writes, or another session replaces the table; `Io`; `Cancelled`.
    pub(crate) fn begin(&self, write: NewWrite, call: &Call) -> Result<Begun> {
        call.check()?;
        let guard = self.lock.acquire_for(call)?;
        let (versions, table) = (&self.versions, write.table.into());
        let version = versions.current();
        let seed = versions.table_of(&version, table)?.row_rules.seed;
        let key = write.key.as_ref().map(|key| version.manifest.key_hash(key));
        if let Some(key) = key
            && let Some(entry) = versions.history(&version.manifest)?.of_key(table, key, now())
        {
            return entry.repeated(write.kind).map(Begun::Before);
        }
        drop(version);
        if let Some(key) = key {
            self.end_earlier(table, key)?;
        }
        if write.sharing == Sharing::Shared {
            return Ok(Begun::Shared(Box::new(self.begin_shared(write, key, call)?)));
        }
        let files = StagingFiles::new(versions)?;
        let fence = match write.kind {
            WriteKind::Add => None,
            WriteKind::Replace => Some(self.begin_replace(table, files.id, call)?),
        };
        let guard = (write.sharing == Sharing::Locked).then_some(guard);
        let limits = versions.limits;
        let write = StagedWrite::new(write, fence, key, (files, guard), (limits, seed));
        Ok(Begun::New(Arc::new(write)))
    }

    /// Fences the rows that a replace will remove: the rows that are in segments now.
    pub(super) fn begin_replace(
        &self,
        table: Identity,
        session: Identity,
        call: &Call,
    ) -> Result<Fence> {
        self.writes.flush_all(call)?;
        let mut begun = None;
        self.versions.publish(|manifest| {
            let entry = manifest.table_mut(table)?;
            if let Some(other) = &entry.fence
                && self.versions.is_staging(other.session)?
            {
                return Err(Error::being_replaced(&entry.name));
            }
            begun = Some(entry.begin_replace(session));
            Ok(())
        })?;
        begun.ok_or_else(|| Error::new(ErrorKind::Io, "a publication was not made"))
    }

    /// Commits these parts of a session. After `Busy` it may be repeated.
    ///
    /// # Errors
    /// See [`idmatch_store::WriteSession::commit`].
    pub(crate) fn commit(
        &self,
        write: &StagedWrite,
        receipts: &[PartReceipt],
        call: &Call,
    ) -> Result<Committed> {
        let mut phase = write.phase.lock_while(|| call.check())?;
        if let Some(outcome) = write.outcome() {
            return Ok(outcome);
        }
        if let Phase::Staging = &*phase {
            let (rows, outcome) = write.take_parts(receipts)?;
            write.is_staging.store(false, Relaxed);
            *phase = Phase::Taken;
            *phase = Phase::Sorted(self.sort(write, rows, outcome, call)?);
        }
        let _guard = match &*phase {
            Phase::Sorted(_) => self.lock.acquire_for(call)?,
            Phase::Staging | Phase::Taken | Phase::Ended => return Err(Error::session_ended()),
        };
        let Phase::Sorted(sorted) = std::mem::replace(&mut *phase, Phase::Taken) else {
            return Err(Error::session_ended());
        };
        let outcome = sorted.outcome;
        self.publish(write, sorted)?;
        write.outcome.set(outcome).ok();
        drop(phase);
        self.compactor.compact_backlog(call);
        write.guard.lock().take();
        Ok(outcome)
    }

    /// Ends a session, unless it is committed.
    ///
    /// # Errors
    /// `InvalidArgument` if it is committed.
    pub(crate) fn end(&self, write: &StagedWrite) -> Result<()> {
        let mut phase = write.phase.lock();
        if write.outcome().is_some() {
            return Err(Error::session_committed());
        }
        write.is_staging.store(false, Relaxed);
        if let Phase::Ended = std::mem::replace(&mut *phase, Phase::Ended) {
            return Ok(());
        }
        drop(phase);
        write.drop_parts();
        if let Some(fence) = &write.fence {
            self.give_up_replace(write.table, fence.session);
        }
        write.guard.lock().take();
        Ok(())
    }

    /// Sorts the rows of a session into segments among its own files.
    ///
    /// # Errors
    /// `TableNotFound`, `Io`, `Cancelled`.
    fn sort(
        &self,
        write: &StagedWrite,
        rows: Partitioned,
        outcome: Committed,
        call: &Call,
    ) -> Result<Sorted> {
        let _sorting = self.lock_sorting(call)?;
        let (versions, table) = (&self.versions, write.table);
        let version = versions.current();
        // Copies what it needs and drops the version, which would keep the files that a load replaces.
        let row_rules = versions.table_of(&version, table)?.row_rules.clone();
        let made_with = version.manifest.tombstone_files(table).to_vec();
        drop(version);
        let next = AtomicU64::new(0);
        let place = LoadPlace {
            disk: &*versions.disk,
            folder: write.files.folder(),
            new_path: &|| write.files.path(&format!("{:010}.seg", next.fetch_add(1, Relaxed))),
            limits: versions.limits,
            call,
        };
        let spill = write.spill.clone();
        let segments = sort(&place, &row_rules, &Sides { spill, rows })?;
        Ok(Sorted { segments, outcome, made_with })
    }

    /// Publishes the sorted rows of a session with its outcome. The writer lock is held.
    ///
    /// # Errors
    /// `TableNotFound` if the table was dropped; `Expired` if another session replaces it; `Io`.
    fn publish(&self, write: &StagedWrite, sorted: Sorted) -> Result<()> {
        let versions = &self.versions;
        let _collected = versions.collect_obsolete();
        versions.add_segments(
            |names| Ok((self.move_in(write, sorted.segments, names)?, names.take_for("his"))),
            |(segments, history)| {
                self.writes.sync_upserts()?;
                versions.publish(|manifest| {
                    let entry = manifest.table_mut(write.table)?;
                    if let Some(fence) = &write.fence {
                        entry.end_replace(fence)?;
                    }
                    entry.add(segments, &sorted.made_with, now().millis());
                    versions.add_history(manifest, write.history(sorted.outcome), history)
                })
            },
        )
    }

    /// Moves segments from the files of a session to those of the store, durably.
    fn move_in(
        &self,
        write: &StagedWrite,
        sorted: Vec<SegmentInfo>,
        names: &FileNames<'_>,
    ) -> Result<Vec<SegmentInfo>> {
        let (disk, folder) = (&*self.versions.disk, self.versions.segments());
        let mut moved = Vec::with_capacity(sorted.len());
        for segment in sorted {
            let (from, file) = (write.files.folder().join(&segment.file), names.take());
            let to = folder.join(&file);
            disk.rename(&from, &to).map_err(|e| io_error("move", &from, e))?;
            moved.push(SegmentInfo { file, ..segment });
        }
        disk.sync_dir(&folder).map_err(|e| io_error("sync", &folder, e))?;
        Ok(moved)
    }

    /// Ends a replace that was not committed. Best effort: the next holder of the writer lock does it again.
    pub(super) fn give_up_replace(&self, table: Identity, session: Identity) {
        let give_up = || {
            let _guard = self.lock.acquire()?;
            self.versions.publish(|manifest| {
                manifest.table_mut(table)?.give_up_replace(Some(session));
                Ok(())
            })
        };
        give_up().ok();
    }
}

/// The result of beginning a session.
pub(crate) enum Begun {
    /// A new session.
    New(Arc<StagedWrite>),
    /// A new shared session.
    Shared(Box<SharedWrite>),
    /// The outcome of an earlier session with the same key.
    Before(Committed),
}
