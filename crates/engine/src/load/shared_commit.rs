//! Begins, resumes, commits and ends shared sessions, which several processes stage.
//!
//! The commit itself is the same as in any other session. Must not know how parts are stored.

use super::bulk_loader::{Begun, BulkLoader};
use super::shared_write::{Committing, SharedWrite};
use super::staged_write::StagedWrite;
use crate::identity::Identity;
use crate::versions::HistoryEntry;
use idmatch_store::{Call, Committed, Error, ErrorKind, NewWrite, PartReceipt, Result, WriteKind};
use std::sync::Arc;

impl BulkLoader {
    /// Begins a shared session.
    pub(super) fn begin_shared(
        &self,
        write: NewWrite,
        key: Option<Identity>,
        call: &Call,
    ) -> Result<SharedWrite> {
        let (table, kind) = (write.table.into(), write.kind);
        let shared = SharedWrite::make(&self.versions, write, key)?;
        if kind == WriteKind::Replace
            && let Err(e) = self.begin_replace(table, shared.folder.id, call)
        {
            shared.folder.remove().ok();
            return Err(e);
        }
        Ok(shared)
    }

    /// Ends the session that an earlier attempt with this key has left.
    ///
    /// # Errors
    /// `Busy` if a process commits it; `Io`.
    pub(super) fn end_earlier(&self, table: Identity, key: Identity) -> Result<()> {
        for folder in self.versions.shared_sessions()? {
            if let Some(left) = SharedWrite::find(&self.versions, (table, folder.id))?
                && left.note.key == Some(key)
            {
                self.end_shared(&left)?;
            }
        }
        Ok(())
    }

    /// The session that another process has begun, or its outcome.
    ///
    /// # Errors
    /// `Expired` if there is none, or no longer; `Io`, `Corrupt`.
    pub(crate) fn resume(&self, table: Identity, session: Identity) -> Result<Begun> {
        self.lock.refresh()?;
        match SharedWrite::find(&self.versions, (table, session))? {
            Some(shared) => Ok(Begun::Shared(Box::new(shared))),
            None => self.committed(table, session)?.map(Begun::Before).ok_or_else(|| {
                let text = format!(
                    "{} has no session {session:?}: it was aborted, its 24 h are over, or it was not \
                     begun as shared; begin another one",
                    self.versions.root.display()
                );
                Error::new(ErrorKind::Expired, text)
            }),
        }
    }

    /// The outcome of a session by the load history, as far as this process has read it.
    fn committed(&self, table: Identity, session: Identity) -> Result<Option<Committed>> {
        let history = self.versions.history(&self.versions.current().manifest)?;
        Ok(history.of_session(table, session).map(HistoryEntry::outcome))
    }

    /// Commits a shared session. After `Busy` the commit may be repeated, in any process.
    ///
    /// # Errors
    /// See [`idmatch_store::WriteSession::commit`].
    pub(crate) fn commit_shared(
        &self,
        write: &SharedWrite,
        receipts: &[PartReceipt],
        call: &Call,
    ) -> Result<Committed> {
        let _only = write.committing.lock_while(|| call.check())?;
        if let Some(outcome) = write.outcome() {
            return Ok(outcome);
        }
        let ready = match self.prepare(write, receipts, call).map_err(|e| write.left(e))? {
            PreparedCommit::Ready(ready) => ready,
            PreparedCommit::Committed(outcome) => {
                return Ok(*write.outcome.get_or_init(|| outcome));
            }
        };
        // After an error the files of this commit are removed and its lock is released: another process may
        // commit, too.
        let committed = self.commit(&ready.write, &[ready.part], call);
        let outcome = committed.map_err(|e| write.left(e))?;
        // The session is over in any case; the next writer removes the remaining files.
        write.folder.remove().ok();
        Ok(*write.outcome.get_or_init(|| outcome))
    }

    /// Gathers the rows of a commit, unless the session is committed.
    fn prepare(
        &self,
        write: &SharedWrite,
        receipts: &[PartReceipt],
        call: &Call,
    ) -> Result<PreparedCommit> {
        self.lock.check_writable()?;
        let (table, session) = (write.note.table, write.folder.id);
        let files = write.lock();
        self.lock.refresh()?;
        if let Some(outcome) = self.committed(table, session)? {
            if files.is_ok() {
                write.folder.remove().ok();
            }
            return Ok(PreparedCommit::Committed(outcome));
        }
        let files = files?;
        let version = self.versions.current();
        let seed = self.versions.table_of(&version, table)?.row_rules.seed;
        let fence = match (write.note.kind.into(), version.manifest.tables.get(&table)) {
            (WriteKind::Replace, Some(entry)) => Some(SharedWrite::fence(entry, session)?),
            _ => None,
        };
        let parts = write.choose(receipts)?;
        let (new, key) = (write.note.new_write(), write.note.key);
        let made_of = (self.versions.limits, seed);
        let staged = Arc::new(StagedWrite::new(new, fence, key, (files, None), made_of));
        drop(version);
        write.gather(&parts, staged, call).map(PreparedCommit::Ready)
    }

    /// Ends a shared session, unless it is committed.
    ///
    /// # Errors
    /// `InvalidArgument` if it is committed; `Busy` if another process commits it; `UnsupportedFormat` if a later
    /// version has begun to; `Io`.
    pub(crate) fn end_shared(&self, write: &SharedWrite) -> Result<()> {
        let _only = write.committing.lock();
        let files = match write.lock() {
            Err(e) if e.kind() == ErrorKind::Expired => None,
            files => Some(files?),
        };
        self.lock.refresh()?;
        let session = write.folder.id;
        if write.outcome().is_some() || self.committed(write.note.table, session)?.is_some() {
            return Err(Error::session_committed());
        }
        write.folder.check_commit_format()?;
        write.folder.remove()?;
        drop(files);
        if write.note.kind == WriteKind::Replace.into() {
            self.give_up_replace(write.note.table, session);
        }
        Ok(())
    }
}

/// The result of preparing the commit of a shared session.
enum PreparedCommit {
    /// This process has all rows, and the lock of the session.
    Ready(Committing),
    /// Another process has committed it.
    Committed(Committed),
}
