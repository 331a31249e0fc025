//! The write path: how upserts become durable and visible.
//!
//! A batch waits while compactions are far behind (`compaction::stall`). A group of batches ([`super::GroupCommit`])
//! is one record of the journal; it waits here while all memtables are full. If a batch of it has
//! `Durability::Always`, the record is synced before its rows are visible; else a thread syncs it within the interval,
//! or the next commit if that is late.
//! At half of the memory limit the next journal file begins, and [`super::Flusher`] flushes the memtables of the last.
//!
//! Must not know how rows are read. Invariants: readers see all rows of a group at once. After a failed sync this
//! process accepts no upsert until the store is opened again.

use super::journal_writer::{ActiveJournal, read_only};
use super::{Batch, Flusher, GroupCommit, PendingCommit};
use crate::compaction::Compactor;
use crate::encoding::{Packer, rows};
use crate::identity::Identity;
use crate::journal::{Appended, encode_batch};
use crate::memtable::{Commit, Memtable};
use crate::metrics::Stall;
use crate::sync::Ordering::{AcqRel, Relaxed, Release};
use crate::sync::{self, AtomicBool, Condvar, Rank, RankedMutex};
use crate::versions::{JournalPositions, MemtableSet, StoreVersion, VersionSet};
use crate::writer_lock::WriterLock;
use idmatch_store::{Call, Durability, Error, ErrorKind, ObservationSource, Result, Unit};
use std::sync::Arc;
use std::time::Duration;
use tracing::error;

/// A larger upsert is cut into batches of this many rows or bytes; each is seen whole or not at all.
const BATCH_ROWS: u32 = 100_000;
const BATCH_BYTES: usize = 32 << 20;

/// A memtable set takes no more bytes, whatever the memory limit: offsets have 32 bits.
const MAX_SET_BYTES: usize = 1 << 30;

/// About the memory of a row beyond its bytes, in both directions; and the growth factor of its lists.
const ROW_OVERHEAD_BYTES: usize = 48;
const LIST_GROWTH: usize = 2;
/// This share of the memory limit is reserved for lists that grow by more than estimated.
const RESERVE_SHARE: usize = 64;

/// How upserts are written.
pub(crate) struct WritePath {
    versions: Arc<VersionSet>,
    lock: Arc<WriterLock>,
    compactor: Arc<Compactor>,
    flusher: Arc<Flusher>,
    commits: GroupCommit,
    /// `None` while this process writes no journal.
    writer: RankedMutex<Option<ActiveJournal>>,
    /// Whether a thread waits to sync the journal, and how it is woken.
    is_syncing: AtomicBool,
    to_sync: Condvar,
    /// Whether the store was dropped, perhaps without being closed.
    is_dropped: AtomicBool,
}

impl WritePath {
    pub(crate) fn new(
        versions: Arc<VersionSet>,
        lock: Arc<WriterLock>,
        compactor: Arc<Compactor>,
    ) -> WritePath {
        WritePath {
            flusher: Arc::new(Flusher::new(versions.clone(), lock.clone(), compactor.clone())),
            versions,
            lock,
            compactor,
            commits: GroupCommit::new(),
            writer: RankedMutex::new(Rank::Writer, None),
            is_syncing: AtomicBool::new(false),
            to_sync: Condvar::new(),
            is_dropped: AtomicBool::new(false),
        }
    }

    /// Adds observations. When this returns, later reads in this process see them, and they are as durable as
    /// asked. After an error, whole batches may have been added.
    pub(crate) fn upsert(
        self: &Arc<WritePath>,
        table: Identity,
        source: &dyn ObservationSource,
        durability: Durability,
        call: &Call,
    ) -> Result<()> {
        call.check()?;
        // A caller that waits for another writer waits before rows are read. Other callers find out with the
        // first batch.
        let waits = !call.writer_wait().is_zero();
        let _guard = if waits { Some(self.lock.acquire_for(call)?) } else { None };
        // The table that the rows are for must be durable before them.
        self.make_durable(table)?;
        let empty = || Batch { table, durability, count: 0, rows: Vec::new() };
        let mut batch = empty();
        let (mut id_packer, mut partner_packer) = (Packer::default(), Packer::default());
        while let Some(next) = source.next_batch()? {
            call.report("upsert", next.len() as u64, Unit::Rows)?;
            let pairs = next.ids.iter().zip(next.partner_ids.iter());
            for ((id, partner_id), seen_at) in pairs.zip(&next.seen_at) {
                let (id, partner_id) = (id_packer.pack(id), partner_packer.pack(partner_id));
                rows::push(&mut batch.rows, *seen_at, id, partner_id);
                batch.count += 1;
                if batch.count >= BATCH_ROWS || batch.rows.len() >= BATCH_BYTES {
                    self.commit(std::mem::replace(&mut batch, empty()), call)?;
                }
            }
        }
        if batch.count == 0 { Ok(()) } else { self.commit(batch, call) }
    }

    /// Makes sure that a table exists durably: the publication that made it may be in doubt.
    fn make_durable(&self, table: Identity) -> Result<()> {
        self.versions.table_of(&self.versions.current(), table)?;
        if self.versions.is_durable() {
            return Ok(());
        }
        let _guard = self.lock.acquire()?;
        self.versions.publish(|manifest| manifest.table_mut(table).map(drop))
    }

    /// Makes a batch durable and visible, together with batches of other threads.
    fn commit(self: &Arc<WritePath>, batch: Batch, call: &Call) -> Result<()> {
        self.lock.check_writable()?;
        self.compactor.wait_for_compactions(call)?;
        self.commits.commit(batch, |group| self.commit_group(group), || self.give_up())
    }

    /// After a panic it is unknown how far the writing got, so nothing is written any more.
    fn give_up(&self) -> Error {
        let why = "a thread panicked while it wrote";
        error!("a thread panicked while it wrote: the store can only be read now");
        if let Some(writer) = self.writer.lock().as_mut() {
            writer.fail(why.to_owned(), &self.versions);
        }
        read_only(&self.versions, why)
    }

    /// Makes all upserts durable, so that nothing later is durable without them.
    pub(crate) fn sync_upserts(&self) -> Result<()> {
        let mut slot = self.writer.lock();
        let Some(writer) = slot.as_mut() else { return Ok(()) };
        writer.sync(&self.versions);
        writer.check_writable(&self.versions)
    }

    /// Makes batches durable, then visible.
    fn commit_group(self: &Arc<WritePath>, group: &[Arc<PendingCommit>]) -> Result<()> {
        let mut slot = self.writer.lock();
        // A table is dropped only while the writer is at rest.
        let version = self.versions.current();
        let mut group = group.to_vec();
        group.retain(|pending| {
            let found = self.versions.table_of(&version, pending.batch.table).map(drop);
            found.map_err(|e| pending.refuse(e)).is_ok()
        });
        drop(version);
        if group.is_empty() {
            return Ok(());
        }
        let writer = match &mut *slot {
            Some(writer) => writer,
            None => slot.insert(ActiveJournal::begin(&self.versions, &self.lock, &self.flusher)?),
        };
        writer.check_writable(&self.versions)?;
        let bytes = group
            .iter()
            .map(|pending| {
                pending.batch.rows.len() * 2 + pending.batch.count as usize * ROW_OVERHEAD_BYTES
            })
            .sum();
        self.flusher.check(writer.current_file())?;
        self.make_room(writer, bytes * LIST_GROWTH)?;
        self.compactor.slow_down(bytes, &mut writer.stall_debt);
        // The number of a failed commit is not used again: its record may be whole.
        let commit = writer.next_commit;
        writer.next_commit += 1;
        let mut entries = Vec::with_capacity(bytes);
        for PendingCommit { batch, .. } in group.iter().map(AsRef::as_ref) {
            encode_batch(&mut entries, batch.table, batch.count, &batch.rows);
        }
        let strictest = group.iter().map(|pending| pending.batch.durability).min();
        let wait = match strictest {
            Some(Durability::Interval(wait)) => Some(wait),
            _ => None,
        };
        let journal = writer.journal_file(&self.versions, &self.flusher)?;
        match journal.append(commit, &entries, wait.is_some()) {
            Appended::Done => self.sync_within(writer, wait)?,
            Appended::NotWritten(e) => {
                // The end of the file is unknown: the next commit begins another.
                writer.end_file(&self.versions);
                return Err(e);
            }
            Appended::NotSynced(e) => {
                writer.fail(e.chain(), &self.versions);
                return Err(e);
            }
        }
        self.versions.metrics.committed(group.iter().map(|pending| pending.batch.count));
        self.show_rows(commit, &group)
    }

    /// Puts the rows into the memtables, then lets readers see them.
    fn show_rows(&self, commit: Commit, group: &[Arc<PendingCommit>]) -> Result<()> {
        for PendingCommit { batch, .. } in group.iter().map(AsRef::as_ref) {
            let memtable = match self.versions.current().newest_memtable(&batch.table) {
                Some(memtable) => memtable.clone(),
                None => self.add_memtable(batch),
            };
            let added = memtable.add(commit, batch.count, &batch.rows);
            added.ok_or_else(|| Error::new(ErrorKind::Corrupt, "rows changed in memory"))?;
        }
        self.versions.set_last_commit(commit);
        Ok(())
    }

    fn add_memtable(&self, batch: &Batch) -> Arc<Memtable> {
        let _publishing = self.versions.lock_publish();
        let version = self.versions.current();
        let memtable = Arc::new(Memtable::new(version.manifest.hash_seed()));
        let mut sets = version.memtables.clone();
        if let Some(newest) = sets.last_mut() {
            newest.tables.insert(batch.table, memtable.clone());
        }
        self.versions.install(version.with_memtables(sets));
        memtable
    }

    /// Notes when written records have to be durable, and has a thread sync them by then.
    fn sync_within(
        self: &Arc<WritePath>,
        writer: &mut ActiveJournal,
        wait: Option<Duration>,
    ) -> Result<()> {
        writer.sync_within(wait, &self.versions);
        self.to_sync.notify_all();
        if writer.sync_by.is_some() && !self.is_syncing.swap(true, AcqRel) {
            let writes = self.clone();
            if sync::spawn("idmatch-sync", move || writes.sync_when_due()).is_err() {
                // No thread can sync later, so this one syncs now.
                self.is_syncing.store(false, Release);
                writer.sync(&self.versions);
            }
        }
        writer.check_writable(&self.versions)
    }

    /// Syncs whenever records are due, until none waits.
    fn sync_when_due(self: Arc<WritePath>) {
        let mut slot = self.writer.lock();
        while let Some(writer) = slot.as_mut()
            && let Some(by) = writer.sync_by
        {
            let left = by.saturating_duration_since(sync::instant());
            // If the store was dropped without being closed, it syncs at once.
            if left.is_zero() || self.is_dropped.load(Relaxed) {
                writer.sync(&self.versions);
            } else {
                slot = slot.wait_for(&self.to_sync, left);
            }
        }
        self.is_syncing.store(false, Release);
    }

    /// Waits until this many bytes fit into the memtables.
    fn make_room(self: &Arc<WritePath>, writer: &mut ActiveJournal, bytes: usize) -> Result<()> {
        // One commit may grow many lists, each by more than the estimate.
        let limit = self.versions.limits.memtable_bytes
            - self.versions.limits.memtable_bytes / RESERVE_SHARE;
        loop {
            let version = self.versions.current();
            let active = match &writer.journal {
                Some(_) => version.memtables.last().map_or(0, MemtableSet::bytes),
                None => 0,
            };
            if active > 0 && active + bytes > (limit / 2).min(MAX_SET_BYTES) {
                if let Some((ended, _)) = writer.end_file(&self.versions) {
                    self.flusher.start(ended);
                }
                writer.check_writable(&self.versions)?;
                continue;
            }
            if version.memtable_bytes() + bytes <= limit || version.memtable_bytes() == active {
                return Ok(());
            }
            let flush = || self.flusher.flush_before(writer.current_file(), &Call::default());
            self.versions.metrics.stall(Stall::Memtable, flush)?;
        }
    }

    /// Writes all that was upserted before this call as segments. Upserts go on meanwhile.
    pub(crate) fn flush_all(&self, call: &Call) -> Result<()> {
        let (version, _) = self.end_journal();
        let last = version.memtables.last().map(|set| set.journal);
        drop(version);
        let Some(last) = last else { return Ok(()) };
        // An earlier flush may be about fewer memtables.
        while self.versions.current().memtables.first().is_some_and(|set| set.journal <= last) {
            self.flusher.flush_before(last + 1, call)?;
        }
        Ok(())
    }

    /// Runs `work` while no commit runs. It gets the newest journal file with rows that are in no segment.
    /// These rows become segments in the background.
    pub(crate) fn at_rest(
        self: &Arc<WritePath>,
        work: impl FnOnce(Option<u64>) -> Result<()>,
    ) -> Result<()> {
        let mut slot = self.writer.lock();
        let last = self.versions.current().memtables.last().map(|set| set.journal);
        work(last)?;
        if let Some(writer) = slot.as_mut() {
            writer.end_file(&self.versions);
        }
        if let Some(last) = last {
            self.flusher.start(last);
        }
        Ok(())
    }

    /// Ends the journal file, durably. Returns the version whose rows are in segments and in ended journal
    /// files, and the ends of these. The version's files stay while it is held.
    pub(crate) fn end_journal(&self) -> (Arc<StoreVersion>, JournalPositions) {
        let mut slot = self.writer.lock();
        if let Some(writer) = slot.as_mut() {
            writer.end_file(&self.versions);
        }
        let positions = self.versions.lock_publish();
        (self.versions.current(), positions.clone())
    }

    /// Ends background work after the store was dropped. Records that wait for a sync are synced now.
    pub(crate) fn store_dropped(&self) {
        self.is_dropped.store(true, Relaxed);
        self.compactor.stop();
        if !self.lock.is_own_process() {
            // The writer may be locked by a thread that this fork does not have.
            return;
        }
        // Under the lock, a thread that waits to sync has either seen `is_dropped`, or it is woken.
        drop(self.writer.lock());
        self.to_sync.notify_all();
    }

    /// Ends writing that has failed, so that it can begin anew.
    pub(crate) fn give_up_failed(&self) {
        let has_failed = self.writer.lock().as_ref().is_some_and(|writer| writer.failed.is_some());
        if has_failed {
            self.close().ok();
        }
    }

    /// Ends the writing of this process: upserted rows stay in the journal.
    pub(crate) fn close(&self) -> Result<()> {
        if !self.lock.is_own_process() {
            return Ok(());
        }
        let mut slot = self.writer.lock();
        let Some(mut writer) = slot.take() else { return Ok(()) };
        self.to_sync.notify_all();
        self.flusher.wait(&Call::default())?;
        self.compactor.without_compacting(move || {
            let could_write = writer.failed.is_none();
            writer.end_file(&self.versions);
            let last = self
                .versions
                .lock_publish()
                .last_key_value()
                .map(|(at, file)| (*at, file.end as u64));
            match (last, &writer.failed) {
                (_, Some(why)) if could_write => {
                    let root = self.versions.root.display();
                    let what = format!("the latest upserts of {root} may not be durable: {why}");
                    Err(Error::new(ErrorKind::Io, what))
                }
                // The file has this length from now on: a shorter one would be damage.
                (Some(closed), None) => self.versions.publish(|manifest| {
                    manifest.journal.closed = Some(closed);
                    Ok(())
                }),
                _ => Ok(()),
            }
        })
    }
}
