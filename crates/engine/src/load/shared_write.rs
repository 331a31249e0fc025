//! A write that several processes stage, each of its parts in a file, and one of them commits.
//!
//! Must not know how a commit publishes. Invariant: the lock file of the session is held from before the parts of
//! a commit are chosen until the session is removed, so one process at a time commits or ends it.

use super::part_file::{PartFile, PartReader};
use super::partition::Partitioned;
use super::staged_write::StagedWrite;
use super::staging::StagingFiles;
use crate::cpu;
use crate::disk::io_error;
use crate::encoding::rows::Row;
use crate::identity::Identity;
use crate::sync::{AtomicUsize, Ordering::Relaxed, Rank, RankedMutex};
use crate::versions::{Fence, PartName, SessionFolder, SessionNote, TableEntry, VersionSet};
use idmatch_store::{
    Call, Committed, Error, ErrorFields, ErrorKind, NewWrite, PartReceipt, Result, SessionAddress,
    SessionId, Unit,
};
use std::io;
use std::sync::{Arc, OnceLock};

/// A shared session, as one of its processes has it.
pub(crate) struct SharedWrite {
    pub(super) folder: SessionFolder,
    pub(super) note: SessionNote,
    /// Held while this process commits or ends it.
    pub(super) committing: RankedMutex<()>,
    pub(super) outcome: OnceLock<Committed>,
}

/// A commit that has the lock of the session, and all its rows in files of its own.
pub(super) struct Committing {
    pub(super) write: Arc<StagedWrite>,
    /// All rows, as one part.
    pub(super) part: PartReceipt,
}

impl SharedWrite {
    /// Begins a session. Only while the writer lock is held.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn make(
        versions: &VersionSet,
        write: NewWrite,
        key: Option<Identity>,
    ) -> Result<SharedWrite> {
        let folder = versions.session_folder(Identity::random()?);
        let store = versions.current().manifest.store;
        let note = SessionNote::new((store, folder.id), write, key);
        folder.make(&note)?;
        Ok(SharedWrite::of(folder, note))
    }

    /// The session of a table; `None` if it is not there.
    ///
    /// # Errors
    /// `Io`, `Corrupt`, `UnsupportedFormat`.
    pub(super) fn find(
        versions: &VersionSet,
        (table, session): (Identity, Identity),
    ) -> Result<Option<SharedWrite>> {
        let folder = versions.session_folder(session);
        let store = versions.current().manifest.store;
        let note = folder
            .note()?
            .filter(|note| (note.store, note.session, note.table) == (store, session, table));
        Ok(note.map(|note| SharedWrite::of(folder, note)))
    }

    fn of(folder: SessionFolder, note: SessionNote) -> SharedWrite {
        let committing = RankedMutex::new(Rank::SharedSession, ());
        SharedWrite { folder, note, committing, outcome: OnceLock::new() }
    }

    /// The address by which other processes find it.
    pub(crate) fn address(&self) -> SessionAddress {
        let session = SessionId(u128::from_be_bytes(self.folder.id.0));
        SessionAddress { table: self.note.table.into(), session }
    }

    /// The outcome, once this process has committed it or found that another one has.
    pub(crate) fn outcome(&self) -> Option<Committed> {
        self.outcome.get().copied()
    }

    /// Begins a part.
    ///
    /// # Errors
    /// `Expired` if the session has ended, or its commit has begun; `Io`.
    pub(crate) fn part(&self, number: Option<u32>) -> Result<PartFile> {
        let folder = &self.folder;
        if folder.note()?.is_none() || folder.commit_note()?.is_some() {
            return Err(Error::session_ended());
        }
        PartFile::new(folder, self.note.store, number)
    }

    /// The parts that a commit has taken, or all that are whole.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub(crate) fn parts(&self) -> Result<Vec<PartReceipt>> {
        if let Some(commit) = self.folder.commit_note()? {
            return Ok(commit.parts.iter().map(PartReceipt::from).collect());
        }
        let receipt = |name: &PartName| {
            let (rows, rejected) = self.open(name)?.counts()?;
            let id = u128::from_be_bytes(name.id.0);
            Ok(PartReceipt { id, number: name.number, rows, rejected })
        };
        self.folder.parts()?.iter().map(receipt).collect()
    }

    /// The files for a commit, which have the lock of the session.
    ///
    /// # Errors
    /// `Busy` if another process commits or ends it; `Expired` if the session is gone.
    pub(super) fn lock(&self) -> Result<StagingFiles> {
        match self.folder.try_lock() {
            Ok(Some(lock)) => StagingFiles::of_session(&self.folder, lock),
            Ok(None) => {
                let text = "another process commits the session or ends it; its outcome is known \
                            when it is resumed";
                let fields = ErrorFields::Busy { pid: None, program: None, since: None };
                Err(Error::new(ErrorKind::Busy, text).with_fields(fields))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::session_ended()),
            Err(e) => Err(io_error("lock", &self.folder.path, e)),
        }
    }

    /// The parts that a commit takes. Once a commit has begun, they must be its parts; otherwise they are
    /// noted.
    ///
    /// # Errors
    /// `InvalidArgument` for a part that is not staged, or other parts than those of the commit that has
    /// begun; `Io`.
    pub(super) fn choose(&self, receipts: &[PartReceipt]) -> Result<Vec<(PartName, PartReceipt)>> {
        let names = self.folder.parts()?;
        let named = |id: u128| names.iter().find(|name| u128::from_be_bytes(name.id.0) == id);
        let chosen = PartReceipt::chosen(receipts, |id| named(id).is_some())?;
        match self.folder.commit_note()? {
            None => {
                // A part that is not readable is refused while others may still be added.
                for name in chosen.iter().filter_map(|part| named(part.id)) {
                    self.open(name)?;
                }
                self.folder.begin_commit(&chosen)?;
            }
            Some(begun) if begun.has(&chosen) => {}
            Some(_) => {
                let text = "the commit of the session has begun with other parts; commit the parts that \
                            the session lists";
                return Err(Error::new(ErrorKind::InvalidArgument, text));
            }
        }
        let with_name = |part: &PartReceipt| named(part.id).map(|name| (*name, *part));
        Ok(chosen.iter().filter_map(with_name).collect())
    }

    /// Reads parts into the files of a commit, as one part.
    ///
    /// # Errors
    /// `Io`, `Corrupt`, `Cancelled`.
    pub(super) fn gather(
        &self,
        parts: &[(PartName, PartReceipt)],
        write: Arc<StagedWrite>,
        call: &Call,
    ) -> Result<Committing> {
        let next = AtomicUsize::new(0);
        let threads = cpu::on_each_thread(cpu::count().min(parts.len()), |_| {
            let mut partitioner = write.partitioner()?;
            let mut read = || -> Result<()> {
                while let Some((name, receipt)) = parts.get(next.fetch_add(1, Relaxed)) {
                    let part = self.open(name)?;
                    let take = |row: &Row<'_>| partitioner.add_row(row.seen_at, row.key, row.value);
                    let check = |rows| call.report("read", rows, Unit::Rows);
                    if part.read_rows(take, check)? != receipt.rows {
                        return Err(part.of_another_receipt());
                    }
                }
                Ok(())
            };
            read().inspect_err(|_| next.store(parts.len(), Relaxed))?;
            Ok(partitioner.finish())
        })?;
        let rejected = parts.iter().map(|(_, part)| part.rejected).sum();
        let part = write.add_part(None, rejected, Partitioned::joined(threads))?;
        Ok(Committing { write, part })
    }

    /// Adds to a `Busy` error how the commit can be repeated.
    pub(super) fn left(&self, e: Error) -> Error {
        if e.kind() != ErrorKind::Busy {
            return e;
        }
        let text = format!(
            "the rows of session {} are staged, and stay for 24 h: commit it again, here or by \
             `resume` in another process",
            self.address()
        );
        Error::because(text, e)
    }

    /// The fence of a replace that is still in force.
    ///
    /// # Errors
    /// `Expired` if another replace has begun, or a repair has ended this one; `TableNotFound`.
    pub(super) fn fence(entry: &TableEntry, session: Identity) -> Result<Fence> {
        let fence = entry.fence.as_ref().filter(|fence| fence.session == session);
        fence.cloned().ok_or_else(|| Error::replace_ended(&entry.name))
    }

    fn open(&self, name: &PartName) -> Result<PartReader> {
        PartReader::open(&self.folder, self.note.store, name)
    }
}
