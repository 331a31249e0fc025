//! Flushes: full memtables become segments, and their journal files are removed.

use crate::background::FLUSH;
use crate::compaction::Compactor;
use crate::cpu;
use crate::disk::io_error;
use crate::hash_partition::HashPartition;
use crate::identity::Identity;
use crate::memtable::{Commit, Memtable};
use crate::segment::{SegmentInfo, sorted};
use crate::sync::{self, Condvar, Mutex, millis};
use crate::tombstones::RowRules;
use crate::versions::{FileNames, Manifest, MemtableSet, TableVersion, VersionSet};
use crate::writer_lock::WriterLock;
use idmatch_model::Side;
use idmatch_store::{Call, Error, ErrorKind, Result, now};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::debug;

/// How often a thread that waits looks whether it still should.
const LOOK: Duration = Duration::from_millis(50);

/// Writes memtables as segments, in the background of upserts.
pub(crate) struct Flusher {
    versions: Arc<VersionSet>,
    lock: Arc<WriterLock>,
    compactor: Arc<Compactor>,
    state: Mutex<FlushState>,
    /// Signalled when a flush ends.
    ended: Condvar,
}

/// The flush that runs, or ran last.
#[derive(Default)]
struct FlushState {
    is_running: bool,
    /// The error of the last flush, if it failed.
    error: Option<Error>,
    /// Whether a thread waits to repeat a failed flush.
    is_repeated: bool,
}

impl Flusher {
    pub(crate) fn new(
        versions: Arc<VersionSet>,
        lock: Arc<WriterLock>,
        compactor: Arc<Compactor>,
    ) -> Flusher {
        let (state, ended) = (Mutex::default(), Condvar::new());
        Flusher { versions, lock, compactor, state, ended }
    }

    /// Starts a flush of the memtables of all journal files up to this one, in the background, unless one
    /// runs.
    pub(crate) fn start(self: &Arc<Flusher>, last: u64) {
        // The guard is kept while the flush runs: the store may be dropped meanwhile.
        let guard = self.lock.held();
        let mut state = self.state.lock();
        if state.is_running {
            return;
        }
        let flusher = self.clone();
        let started = sync::spawn("idmatch-flush", move || {
            flusher.compactor.note_flush();
            // Other threads wait for the end of the flush, also after a panic.
            let outcome = flusher.versions.background.run(FLUSH, None, || flusher.flush(last));
            drop(guard);
            let mut state = flusher.state.lock();
            state.error = outcome.err();
            state.is_running = false;
            let is_to_repeat = state.error.is_some() && !state.is_repeated;
            state.is_repeated |= is_to_repeat;
            flusher.ended.notify_all();
            drop(state);
            // No thread waits for the work that follows. The flush itself has low priority only after
            // foreground work.
            cpu::lower_priority();
            if is_to_repeat {
                flusher.repeat(last);
            }
            flusher.compactor.compact_in_background();
            flusher.compactor.compact_when_idle();
        });
        state.is_running = started.is_ok();
        if let Err(e) = started {
            let error = Error::with_source(ErrorKind::Io, "cannot start a thread", e);
            state.error = Some(error.copied());
            drop(state);
            self.versions.background.failed(FLUSH, None, &error);
        }
    }

    /// Waits until the memtables of all journal files before this one are segments.
    ///
    /// # Errors
    /// The error of the flush; `Cancelled`, and the flush goes on.
    pub(crate) fn flush_before(self: &Arc<Flusher>, number: u64, call: &Call) -> Result<()> {
        let Some(last) = number.checked_sub(1) else { return Ok(()) };
        self.start(last);
        self.wait(call)?;
        self.state.lock().error.as_ref().map(Error::copied).map_or(Ok(()), Err)
    }

    /// Tries a flush that has failed again, after growing pauses, until one succeeds or this process writes no
    /// more.
    fn repeat(self: &Arc<Flusher>, last: u64) {
        let background = &self.versions.background;
        while background.failure(FLUSH).is_some()
            && !self.compactor.is_stopped()
            && self.lock.held().is_some()
        {
            if background.is_due(FLUSH, None) {
                self.start(last);
                self.wait(&Call::default()).ok();
            }
            sync::sleep(LOOK);
        }
        self.state.lock().is_repeated = false;
    }

    /// Fails while memtables cannot be written as segments. It first tries again to write them: the cause may
    /// be over.
    pub(crate) fn check(self: &Arc<Flusher>, next: u64) -> Result<()> {
        let background = &self.versions.background;
        let Some(failure) = background.failure(FLUSH) else { return Ok(()) };
        if self.flush_before(next, &Call::default()).is_ok() {
            return Ok(());
        }
        let text = format!(
            "{}: upserted rows cannot be written as segments since {} ({} attempts): {}; no row of this call \
             was taken; free disk space or repair the disk, then repeat the call",
            self.versions.root.display(),
            failure.since,
            failure.failures,
            failure.error
        );
        Err(Error::new(ErrorKind::Io, text))
    }

    /// Waits until no flush runs.
    ///
    /// # Errors
    /// `Cancelled`, and the flush goes on.
    pub(crate) fn wait(&self, call: &Call) -> Result<()> {
        loop {
            call.check()?;
            let state = self.state.lock();
            if !state.is_running {
                return Ok(());
            }
            drop(self.ended.wait_for(state, LOOK));
        }
    }

    fn flush(&self, last: u64) -> Result<()> {
        let began = sync::instant();
        // Journal files are removed with the version that has their memtables.
        let _collected = self.versions.collect_obsolete();
        let version = self.versions.current();
        let sets: Vec<&MemtableSet> =
            version.memtables.iter().filter(|set| set.journal <= last).collect();
        if sets.is_empty() {
            return Ok(());
        }
        let mut tables: BTreeMap<Identity, Vec<&Memtable>> = BTreeMap::new();
        for (id, memtable) in sets.iter().flat_map(|set| &set.tables) {
            tables.entry(*id).or_default().push(memtable);
        }
        let flushed: Vec<(&Arc<TableVersion>, Vec<&Memtable>)> = version
            .tables
            .iter()
            .filter_map(|(id, table)| Some((table, tables.remove(id)?)))
            .collect();
        self.versions.add_segments(
            |names| {
                let made = Mutex::new(Vec::new());
                let tasks: Vec<_> = flushed
                    .iter()
                    .flat_map(|(table, memtables)| Side::BOTH.map(|side| (*table, memtables, side)))
                    .collect();
                cpu::for_each(Side::BOTH.len(), &tasks, |(table, memtables, side)| {
                    let segments = self.write_side(names, &table.row_rules, *side, memtables)?;
                    made.lock().push((table.row_rules.table, segments));
                    Ok(())
                })?;
                let made = made.into_inner();
                let segments = self.versions.segments();
                self.versions
                    .disk
                    .sync_dir(&segments)
                    .map_err(|e| io_error("sync", &segments, e))?;
                Ok(made)
            },
            |made| self.publish_flushed(made, &version.manifest, last),
        )?;
        let rows: u64 = flushed.iter().flat_map(|(_, memtables)| memtables).map(|m| m.rows()).sum();
        let metrics = &self.versions.metrics;
        metrics.flush.observe(began.elapsed().as_secs_f64());
        metrics.flushed_rows.inc_by(rows);
        debug!(tables = flushed.len(), rows, ms = millis(began), "memtables were flushed");
        Ok(())
    }

    /// Publishes the segments and drops the memtables, at once.
    fn publish_flushed(
        &self,
        made: Vec<(Identity, Vec<SegmentInfo>)>,
        made_with: &Manifest,
        last: u64,
    ) -> Result<()> {
        let mut read = self.versions.lock_publish();
        let mut unneeded = Vec::new();
        self.versions.publish_locked(
            |manifest| {
                for (id, segments) in made {
                    match manifest.table_mut(id) {
                        Ok(table) => {
                            table.add(segments, made_with.tombstone_files(id), now().millis());
                        }
                        // The table was dropped meanwhile.
                        Err(_) => unneeded.extend(segments.into_iter().map(|s| s.file)),
                    }
                }
                manifest.journal.first = last + 1;
                manifest.journal.closed =
                    manifest.journal.closed.filter(|(number, _)| *number > last);
                Ok(())
            },
            |version| {
                let sets =
                    version.memtables.iter().filter(|set| set.journal > last).cloned().collect();
                version.with_memtables(sets)
            },
        )?;
        read.retain(|number, _| *number > last);
        drop(read);
        self.versions.remove_unpublished(&unneeded);
        self.compactor.note_stall_level();
        Ok(())
    }

    /// Writes the rows of a table's memtables in one direction.
    fn write_side(
        &self,
        names: &FileNames<'_>,
        row_rules: &RowRules,
        side: Side,
        memtables: &[&Memtable],
    ) -> Result<Vec<SegmentInfo>> {
        let total = memtables.iter().map(|memtable| memtable.rows()).sum();
        let prefix_bits = HashPartition::prefix_bits(total, self.versions.limits.segment_rows);
        let mut written = Vec::new();
        for partitions in HashPartition::groups(prefix_bits) {
            let mut found = Vec::new();
            for partition in &partitions {
                for memtable in memtables {
                    memtable.copy_rows(side, *partition, Commit::MAX, &mut found);
                }
            }
            if found.is_empty() {
                continue;
            }
            let prefix = partitions.first().map_or(0, |partition| partition.first_hash());
            let sorted = sorted(&found, row_rules, side, (prefix_bits, prefix), &Call::default())?;
            let path = self.versions.segments().join(names.take());
            written.extend(sorted.finish(&*self.versions.disk, &path, row_rules.table)?);
        }
        Ok(written)
    }
}
