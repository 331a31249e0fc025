//! The journal as this process writes it: its current file, and the writer lock that goes with it.

use super::Flusher;
use crate::background::SYNC;
use crate::disk::io_error;
use crate::identity::Identity;
use crate::journal::{FileHeader, JournalWriter};
use crate::memtable::Commit;
use crate::sync::{self, Instant};
use crate::versions::{JournalPosition, JournalPositions, VersionSet};
use crate::writer_lock::{WriterGuard, WriterLock};
use idmatch_store::{Call, Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;

/// From this many journal files on, ended files are flushed.
const FLUSH_AT_FILES: usize = 8;

/// The journal as this process writes it.
pub(super) struct ActiveJournal {
    _guard: Arc<WriterGuard>,
    /// `None` until the next commit begins a file.
    pub(super) journal: Option<JournalWriter>,
    /// The number of the next file; `before` has the durable length and the identity of the file before it.
    pub(super) next: u64,
    before: (u64, Identity),
    /// The identity of the next file, also where beginning it is tried again.
    next_id: Identity,
    /// The number of the next commit.
    pub(super) next_commit: Commit,
    /// When written records have to be synced at the latest; `None` if all are.
    pub(super) sync_by: Option<Instant>,
    /// Delays of a write stall that were too short to sleep for.
    pub(super) stall_debt: Duration,
    /// Why nothing can be written any more.
    pub(super) failed: Option<String>,
}

impl ActiveJournal {
    /// The number of the file that the next commit goes to.
    pub(super) fn current_file(&self) -> u64 {
        self.journal.as_ref().map_or(self.next, JournalWriter::number)
    }

    /// Notes when written records have to be durable; `None` if they are. Late ones become so now: the thread
    /// that syncs may not have got the lock of the writer.
    pub(super) fn sync_within(&mut self, wait: Option<Duration>, versions: &VersionSet) {
        if self.sync_by.is_some_and(|by| by <= sync::instant()) {
            return self.sync(versions);
        }
        let by = wait.map(|wait| sync::instant() + wait);
        self.sync_by = by.map(|by| self.sync_by.map_or(by, |other| other.min(by)));
    }

    /// Makes written records durable. After a failure nothing is written any more: a second sync could
    /// succeed without having written what the first one lost.
    pub(super) fn sync(&mut self, versions: &VersionSet) {
        self.sync_by = None;
        if let Some(journal) = self.journal.as_mut().filter(|journal| !journal.is_synced())
            && self.failed.is_none()
            && let Err(e) = journal.sync()
        {
            self.fail(e.chain(), versions);
        }
    }

    /// Ends the writing of this process. The failure counts as background work: rows that other calls wrote may
    /// not be durable.
    pub(super) fn fail(&mut self, why: String, versions: &VersionSet) {
        if self.failed.is_none() {
            versions.background.failed(SYNC, None, &Error::new(ErrorKind::Io, why.clone()));
            self.failed = Some(why);
        }
    }

    /// Refuses to write after a failure.
    ///
    /// # Errors
    /// `Io`, if writing has failed.
    pub(super) fn check_writable(&self, versions: &VersionSet) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |why| Err(read_only(versions, why)))
    }

    /// Obtains the writer lock. Rows in the journal of earlier processes stay there until they are worth a
    /// segment.
    pub(super) fn begin(
        versions: &VersionSet,
        lock: &WriterLock,
        flusher: &Arc<Flusher>,
    ) -> Result<ActiveJournal> {
        let guard = lock.acquire()?;
        let folder = versions.journal();
        versions.disk.create_dir(&folder).map_err(|e| io_error("make", &folder, e))?;
        versions.sync_root()?;
        let read = JournalPositions::clone(&versions.lock_publish());
        let last = read.last_key_value().map(|(number, file)| (*number, file.end as u64));
        let id = read.last_key_value().map_or(Identity::default(), |(_, file)| file.id);
        let (next, before) = match last {
            Some((number, end)) => (number + 1, end),
            None => (versions.current().manifest.journal.first, 0),
        };
        // It is unknown how much of an unclosed file is durable. A sync now could succeed without having
        // written the bytes that an earlier sync lost. So its rows are flushed to segments.
        if last.is_some() && versions.current().manifest.journal.closed != last {
            flusher.flush_before(next, &Call::default())?;
        }
        // So nothing waits to be synced.
        versions.background.succeeded(SYNC, None);
        Ok(ActiveJournal {
            _guard: guard,
            journal: None,
            next,
            before: (before, id),
            next_id: Identity::random()?,
            next_commit: versions.last_commit() + 1,
            sync_by: None,
            stall_debt: Duration::ZERO,
            failed: None,
        })
    }

    /// The file to append to, begun if there is none.
    pub(super) fn journal_file(
        &mut self,
        versions: &VersionSet,
        flusher: &Arc<Flusher>,
    ) -> Result<&mut JournalWriter> {
        if self.journal.is_none() {
            let folder = versions.journal();
            if versions.current().memtables.len() >= FLUSH_AT_FILES {
                flusher.start(self.next.saturating_sub(1));
            }
            let next_id = Identity::random()?;
            let header = FileHeader {
                number: self.next,
                before: self.before.0,
                store: versions.current().manifest.store,
                id: self.next_id,
                id_before: self.before.1,
            };
            let durations = versions.metrics.journal_sync.clone();
            let begun = JournalWriter::create(&*versions.disk, &folder, header, durations)?;
            let _publishing = versions.lock_publish();
            let version = versions.current();
            let mut sets = version.memtables.clone();
            sets.push(versions.new_memtable_set(self.next, self.next_id));
            versions.install(version.with_memtables(sets));
            self.next += 1;
            self.next_id = next_id;
            self.journal = Some(begun);
        }
        self.journal.as_mut().ok_or_else(|| Error::new(ErrorKind::Io, "there is no journal"))
    }

    /// Ends the current journal file, durably; returns its number and length.
    pub(super) fn end_file(&mut self, versions: &VersionSet) -> Option<(u64, u64)> {
        self.sync(versions);
        let ended = self.journal.take()?;
        self.before = (ended.durable(), ended.id());
        let (id, end) = (ended.id(), ended.durable() as usize);
        let position = JournalPosition { id, end, commit: self.next_commit - 1 };
        versions.lock_publish().insert(ended.number(), position);
        Some((ended.number(), ended.durable()))
    }
}

/// The error of writes after one failed.
pub(super) fn read_only(versions: &VersionSet, why: &str) -> Error {
    let root = versions.root.display();
    let what = format!(
        "{root} can only be read since writing failed ({why}); \
         check the disk, then open the store again"
    );
    Error::new(ErrorKind::Io, what)
}
