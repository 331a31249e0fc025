//! Upserts: how a batch becomes durable, then visible.
//!
//! Batches come as commits ([`super::group`]). A commit is one record of the journal; when that is
//! durable its rows go into the memtables, and then readers see them, all at once.
//!
//! A set of memtables belongs to one journal file. When it has taken half of the memory there
//! is, a new file is begun and the old set is written as segments ([`super::flush`]).

use super::group::{Batch, Ticket};
use super::hold::Hold;
use super::shared::Shared;
use super::view::LiveSet;
use crate::errors::io_error;
use crate::journal::{Appended, JournalWriter, encode_batch};
use crate::memtable::Memtable;
use crate::packed::Packer;
use crate::rows;
use crate::workers::lock;
use idmatch_model::{TableName, TableOptions};
use idmatch_store::{BatchSource, Durability, Error, ErrorKind, Ingest, Result};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// An upsert of more rows is cut into batches of so many; each is seen whole or not at all.
const BATCH_ROWS: u32 = 100_000;
const BATCH_BYTES: usize = 32 << 20;

/// From so many journal files on, those that are ended are written as segments.
const FILES_LEFT: usize = 8;

/// A set of memtables takes no more, however much memory there may be: places are 32 bits.
const LARGEST_SET: usize = 1 << 30;

/// About what a row takes in memory beyond its bytes, in both directions; and by how much the lists that
/// it goes to may be larger than what is in them.
const ROW_OVERHEAD: usize = 48;
const LIST_ROOM: usize = 2;
/// One part in so many of the memory is left for lists that grow by more than was reckoned.
const LISTS_GROW: usize = 64;

/// What this process needs to write to the journal.
pub(crate) struct Writer {
    _hold: Arc<Hold>,
    /// `None` until the next commit begins a file.
    journal: Option<JournalWriter>,
    /// The number of the next file, and how long the one before is, durably.
    next: u64,
    before: u64,
    /// When at the latest what was written is synced; `None` if it is.
    sync_by: Option<Instant>,
    /// By how much it is to be slowed down yet.
    owed: Duration,
    /// Why nothing can be written any more.
    pub(super) failed: Option<String>,
}

impl Writer {
    /// Makes durable what was written. Where that fails nothing is written any more: a second sync
    /// could succeed without having written what the first one lost.
    fn sync(&mut self) {
        self.sync_by = None;
        if let Some(journal) = self.journal.as_mut().filter(|journal| !journal.is_synced())
            && self.failed.is_none()
            && let Err(e) = journal.sync()
        {
            self.failed = Some(e.chain());
        }
    }
}

impl Shared {
    /// Adds observations. When this returns they are durable, and visible to every later
    /// question in this process. After an error, whole batches before it may have been added.
    pub(crate) fn upsert(
        self: &Arc<Shared>,
        name: &TableName,
        options: &TableOptions,
        source: &mut dyn BatchSource,
        ingest: &Ingest<'_>,
        durability: Option<Durability>,
    ) -> Result<()> {
        let of_store = self.durability();
        let durability = durability.unwrap_or(of_store).min(of_store);
        self.make_table(name, options)?;
        let empty = || Batch { table: name.clone(), durability, count: 0, rows: Vec::new() };
        let mut batch = empty();
        let (mut id_packer, mut partner_packer) = (Packer::default(), Packer::default());
        while let Some(next) = source.next_batch()? {
            let good = ingest.observations(&next)?;
            let pairs = good.ids.iter().zip(good.partner_ids.iter());
            for ((id, partner_id), seen_at) in pairs.zip(&good.seen_at) {
                let (id, partner_id) = (id_packer.pack(id), partner_packer.pack(partner_id));
                rows::push(&mut batch.rows, *seen_at, id, partner_id);
                batch.count += 1;
                if batch.count >= BATCH_ROWS || batch.rows.len() >= BATCH_BYTES {
                    self.commit(std::mem::replace(&mut batch, empty()))?;
                }
            }
        }
        if batch.count == 0 { Ok(()) } else { self.commit(batch) }
    }

    /// Makes durable what was upserted, so that nothing that follows is durable without it.
    pub(super) fn sync_upserts(&self) -> Result<()> {
        let mut slot = lock(&self.writer);
        let Some(writer) = slot.as_mut() else { return Ok(()) };
        writer.sync();
        match &writer.failed {
            Some(why) => Err(self.read_only(why)),
            None => Ok(()),
        }
    }

    pub(super) fn read_only(&self, why: &str) -> Error {
        let root = self.root.display();
        let what = format!(
            "{root} can only be read since writing failed ({why}); \
             check the disk, then open the store again"
        );
        Error::new(ErrorKind::Io, what)
    }

    pub(crate) fn durability(&self) -> Durability {
        *self.durability.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_durability(&self, durability: Durability) {
        *self.durability.write().unwrap_or_else(PoisonError::into_inner) = durability;
    }

    /// Makes batches durable, then visible.
    pub(super) fn commit_group(self: &Arc<Shared>, group: &[Arc<Ticket>]) -> Result<()> {
        let mut slot = lock(&self.writer);
        let writer = match &mut *slot {
            Some(writer) => writer,
            None => slot.insert(self.begin_writing()?),
        };
        if let Some(why) = &writer.failed {
            return Err(self.read_only(why));
        }
        let bytes = group
            .iter()
            .map(|ticket| ticket.batch.rows.len() * 2 + ticket.batch.count as usize * ROW_OVERHEAD)
            .sum();
        self.make_room(writer, bytes * LIST_ROOM)?;
        self.slow_down(bytes, &mut writer.owed);
        let mut entries = Vec::with_capacity(bytes);
        for Ticket { batch, .. } in group.iter().map(AsRef::as_ref) {
            encode_batch(&mut entries, &batch.table, batch.count, &batch.rows);
        }
        let strictest = group.iter().map(|ticket| ticket.batch.durability).min();
        let wait = match strictest {
            Some(Durability::Interval(wait)) => Some(wait),
            _ => None,
        };
        match self.journal_of(writer)?.append(&entries, wait.is_some()) {
            Appended::Done => self.sync_within(writer, wait),
            Appended::NotWritten(e) => {
                // What is in the file now is not known: the next commit begins another.
                self.end_file(writer);
                return Err(e);
            }
            Appended::NotSynced(e) => {
                writer.failed = Some(e.chain());
                return Err(e);
            }
        }
        self.show_rows(group)
    }

    /// Puts the rows into the memtables, then lets readers see them.
    fn show_rows(&self, group: &[Arc<Ticket>]) -> Result<()> {
        let commit = self.visible() + 1;
        for Ticket { batch, .. } in group.iter().map(AsRef::as_ref) {
            let memtable = match self.view().newest_memtable(batch.table.as_str()) {
                Some(memtable) => memtable.clone(),
                None => self.add_memtable(batch),
            };
            let added = memtable.add(commit, batch.count, &batch.rows);
            added.ok_or_else(|| Error::new(ErrorKind::Corrupt, "rows changed in memory"))?;
        }
        self.visible.store(commit, Release);
        Ok(())
    }

    fn add_memtable(&self, batch: &Batch) -> Arc<Memtable> {
        let _publishing = lock(&self.publishing);
        let memtable = Arc::new(Memtable::new());
        let view = self.view();
        let mut live = view.live.clone();
        if let Some(newest) = live.last_mut() {
            newest.tables.insert(batch.table.clone(), memtable.clone());
        }
        self.show(view.with_live(live));
        memtable
    }

    /// Obtains the right to write. What earlier processes left in the journal stays there until
    /// it is worth a segment.
    fn begin_writing(self: &Arc<Shared>) -> Result<Writer> {
        let hold = self.hold()?;
        let folder = self.journal();
        self.disk.create_dir(&folder).map_err(|e| io_error("make", &folder, e))?;
        self.sync_root()?;
        let read = lock(&self.publishing).clone();
        let last = read.last_key_value().map(|(number, end)| (*number, *end as u64));
        let (next, before) = match last {
            Some((number, end)) => (number + 1, end),
            None => (self.view().manifest.journal.first, 0),
        };
        // Of a file that was not closed nobody knows what is durable. A sync now could succeed
        // without having written what an earlier one lost, so its rows are written anew.
        if last.is_some() && self.view().manifest.journal.closed != last {
            self.flush_before(next)?;
        }
        Ok(Writer {
            _hold: hold,
            journal: None,
            next,
            before,
            sync_by: None,
            owed: Duration::ZERO,
            failed: None,
        })
    }

    /// The file to append to, begun if there is none.
    fn journal_of<'w>(self: &Arc<Shared>, writer: &'w mut Writer) -> Result<&'w mut JournalWriter> {
        if writer.journal.is_none() {
            let folder = self.journal();
            if self.view().live.len() >= FILES_LEFT {
                self.start_flush(writer.next.saturating_sub(1));
            }
            let begun = JournalWriter::create(&*self.disk, &folder, writer.next, writer.before)?;
            let _publishing = lock(&self.publishing);
            let view = self.view();
            let mut live = view.live.clone();
            live.push(LiveSet { journal: writer.next, tables: BTreeMap::new() });
            self.show(view.with_live(live));
            writer.next += 1;
            writer.journal = Some(begun);
        }
        writer.journal.as_mut().ok_or_else(|| Error::new(ErrorKind::Io, "there is no journal"))
    }

    /// Notes when what was written has to be durable, and sees to it.
    fn sync_within(self: &Arc<Shared>, writer: &mut Writer, wait: Option<Duration>) {
        let by = wait.map(|wait| Instant::now() + wait);
        writer.sync_by = by.map(|by| writer.sync_by.map_or(by, |other| other.min(by)));
        self.to_sync.notify_all();
        if writer.sync_by.is_none() || self.is_syncing.swap(true, AcqRel) {
            return;
        }
        let shared = self.clone();
        let thread = std::thread::Builder::new().name("idmatch-sync".to_owned());
        if thread.spawn(move || shared.sync_when_due()).is_err() {
            // Without a thread to do it later, now.
            self.is_syncing.store(false, Release);
            writer.sync();
        }
    }

    /// Syncs whenever something has waited long enough, until there is nothing that waits.
    fn sync_when_due(self: Arc<Shared>) {
        let mut slot = lock(&self.writer);
        while let Some(writer) = slot.as_mut()
            && let Some(by) = writer.sync_by
        {
            let left = by.saturating_duration_since(Instant::now());
            // Or nobody has the store any more: it was dropped without being closed.
            if left.is_zero() || self.closing.load(Relaxed) {
                writer.sync();
            } else {
                let waited = self.to_sync.wait_timeout(slot, left);
                slot = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        self.is_syncing.store(false, Release);
    }

    /// Ends the file that is appended to, durably; returns its number and length.
    pub(super) fn end_file(&self, writer: &mut Writer) -> Option<(u64, u64)> {
        writer.sync();
        let ended = writer.journal.take()?;
        writer.before = ended.durable();
        lock(&self.publishing).insert(ended.number(), ended.durable() as usize);
        Some((ended.number(), ended.durable()))
    }

    /// Waits until so many bytes fit into the memtables.
    fn make_room(self: &Arc<Shared>, writer: &mut Writer, bytes: usize) -> Result<()> {
        // Many lists may grow with one commit, each by more than it was given.
        let limit = self.limits.memtable_bytes - self.limits.memtable_bytes / LISTS_GROW;
        loop {
            let view = self.view();
            let active = match &writer.journal {
                Some(_) => view.live.last().map_or(0, LiveSet::bytes),
                None => 0,
            };
            if active > 0 && active + bytes > (limit / 2).min(LARGEST_SET) {
                self.wait_for_merges();
                if let Some((ended, _)) = self.end_file(writer) {
                    self.start_flush(ended);
                }
                continue;
            }
            if view.live_bytes() + bytes <= limit || view.live_bytes() == active {
                return Ok(());
            }
            self.flush_before(writer.journal.as_ref().map_or(writer.next, JournalWriter::number))?;
        }
    }

    /// Ends the writing: what was upserted stays in the journal.
    pub(crate) fn close(&self) -> Result<()> {
        if !self.is_own_process() {
            return Ok(());
        }
        let mut slot = lock(&self.writer);
        let Some(mut writer) = slot.take() else { return Ok(()) };
        self.to_sync.notify_all();
        self.wait_for_flush();
        self.without_compacting(move || {
            let could_write = writer.failed.is_none();
            self.end_file(&mut writer);
            let last = lock(&self.publishing).last_key_value().map(|(at, end)| (*at, *end as u64));
            match (last, &writer.failed) {
                (_, Some(why)) if could_write => {
                    let root = self.root.display();
                    let what = format!("the latest upserts of {root} may not be durable: {why}");
                    Err(Error::new(ErrorKind::Io, what))
                }
                // A file of this length from now on: less of it would be damage.
                (Some(closed), None) => self.publish(|manifest| {
                    manifest.journal.closed = Some(closed);
                    Ok(())
                }),
                _ => Ok(()),
            }
        })
    }
}
