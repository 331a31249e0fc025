//! When segments are compacted, and how the result is published.
//!
//! There are three modes. After each flush, *background* compactions run. After 5 s without a flush, *idle*
//! compactions go further. Both run only while this process has the writer lock. A caller asks for a *full*
//! compaction, which obtains the lock. It leaves one segment in each range, or several where a range has more
//! rows than a segment may have. `strategy` chooses the segments, `run` rewrites them, and `stall` holds
//! upserts back while compactions are behind. Must not know the journal and memtables.
//!
//! Invariants: one compaction runs at a time in a store. The new segments replace their inputs in one
//! publication. Where a retention became longer or an input was removed meanwhile, the result is dropped and
//! made again. A compaction that drops expired rows raises the retention watermark of the other segments. No
//! compaction mixes rows of two epochs: those before the begin of a replace, and those after it.

use super::run::{CompactionJob, run};
use super::segment_stats::{oldest_kept, segment_stats};
use super::strategy::{CompactionMode, SegmentStats, next_compaction};
use crate::background::COMPACTION;
use crate::disk::io_error;
use crate::identity::Identity;
use crate::segment::Segment;
use crate::sync::Ordering::{AcqRel, Relaxed, Release};
use crate::sync::{
    self, AtomicBool, AtomicUsize, Instant, Mutex, Rank, RankedGuard, RankedMutex, millis,
};
use crate::versions::{StoreVersion, TableEntry, TableVersion, VersionSet};
use crate::writer_lock::WriterLock;
use idmatch_model::{SeenAt, Side, TableName};
use idmatch_store::{Call, Error, ErrorKind, Result, now};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tracing::debug;

/// Idle compactions begin this long after the last flush.
const IDLE_AFTER: Duration = Duration::from_secs(5);

/// The pause between two checks of a thread that waits for a time without flushes.
const LOOK: Duration = Duration::from_millis(100);

/// Compacts the tables of a store, one compaction at a time.
pub(crate) struct Compactor {
    pub(super) versions: Arc<VersionSet>,
    pub(super) writer_lock: Arc<WriterLock>,
    /// Held while a compaction runs.
    pub(super) running: RankedMutex<()>,
    /// The number of segments that the worst range has above the slowdown limit.
    pub(super) stall_level: AtomicUsize,
    /// Whether upserts wait for compactions, and whether a thread runs these.
    pub(super) is_far_behind: AtomicBool,
    pub(super) is_catching_up: AtomicBool,
    /// Whether the log already says that upserts wait.
    pub(super) is_told: AtomicBool,
    /// Whether a thread waits for a time without flushes.
    is_waiting_for_idle: AtomicBool,
    /// When the last flush began.
    flushed_at: Mutex<Instant>,
    /// Set while compactions should end.
    stop: AtomicBool,
}

/// The files of a compaction; none if it has to be repeated.
#[derive(Default)]
pub(super) struct CompactionResult {
    inputs: HashSet<String>,
    made: Vec<String>,
    /// Whether the new files cover finer ranges, and may have to be compacted once more.
    is_finer: bool,
}

impl Compactor {
    pub(crate) fn new(versions: Arc<VersionSet>, writer_lock: Arc<WriterLock>) -> Compactor {
        Compactor {
            versions,
            writer_lock,
            running: RankedMutex::new(Rank::Compaction, ()),
            stall_level: AtomicUsize::new(0),
            is_far_behind: AtomicBool::new(false),
            is_catching_up: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
            is_waiting_for_idle: AtomicBool::new(false),
            flushed_at: Mutex::new(sync::instant()),
            stop: AtomicBool::new(false),
        }
    }

    /// Compacts a table until each range has one segment, with rows that are in segments by now.
    ///
    /// # Errors
    /// The errors of reading and writing segments; `Cancelled`: compactions that were done by then stay
    /// published.
    pub(crate) fn compact(&self, table: Identity, call: &Call) -> Result<()> {
        let _guard = self.writer_lock.acquire()?;
        let _running = self.pause(call)?;
        // Later files are not included, or it might never end.
        let mut left = self.files_of(table)?;
        while let Some(merged) =
            self.compact_step(table, CompactionMode::Full, |file| left.contains(file), call)?
        {
            left.retain(|file| !merged.inputs.contains(file));
            if merged.is_finer {
                left.extend(merged.made);
            }
            self.compact_newcomers(&left, call);
        }
        Ok(())
    }

    /// The segments of a table. Only names: a version that is held keeps the disk space of compacted segments.
    pub(super) fn files_of(&self, table: Identity) -> Result<HashSet<String>> {
        let version = self.versions.current();
        let table = self.versions.table_of(&version, table)?;
        Ok(table.segment_files().map(str::to_owned).collect())
    }

    /// Runs background compactions, unless compactions run already or are waited for.
    pub(crate) fn compact_in_background(&self) {
        let Some(_running) = self.running.try_lock() else { return };
        // A background compaction does not obtain the writer lock, it only shares it.
        let Some(_guard) = self.writer_lock.held() else { return };
        self.compact_all(CompactionMode::Background);
    }

    /// Waits for a time without flushes, then runs idle compactions. Only one thread waits.
    pub(crate) fn compact_when_idle(&self) {
        if self.is_waiting_for_idle.swap(true, AcqRel) {
            return;
        }
        loop {
            while !self.is_stopped() && self.flushed_at.lock().elapsed() < IDLE_AFTER {
                sync::sleep(LOOK);
            }
            // What gives way is done later, and a failed compaction is tried again, even if nothing is flushed
            // any more.
            let mut is_put_off = true;
            if let Some(_running) = self.running.try_lock()
                && let Some(_guard) = self.writer_lock.held()
            {
                self.compact_all(CompactionMode::Idle);
                let is_busy = self.flushed_at.lock().elapsed() < IDLE_AFTER;
                is_put_off = is_busy || self.running.is_awaited();
            }
            let fails = || self.versions.background.errors.fails(COMPACTION);
            let has_left = is_put_off || fails();
            if self.is_stopped() || self.writer_lock.held().is_none() || !has_left {
                break;
            }
            sync::sleep(LOOK);
        }
        self.is_waiting_for_idle.store(false, Release);
    }

    /// Has compactions end soon, and begins no others.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Waits until no compaction runs; none begins while the guard is held.
    ///
    /// # Errors
    /// `Cancelled`.
    pub(crate) fn pause(&self, call: &Call) -> Result<RankedGuard<'_, ()>> {
        self.running.lock_while(|| call.check())
    }

    /// Notes that a flush begins.
    pub(crate) fn note_flush(&self) {
        *self.flushed_at.lock() = sync::instant();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Runs the compactions of all tables that are worth it. A failed compaction does not keep back other
    /// tables.
    fn compact_all(&self, mode: CompactionMode) {
        let background = &self.versions.background;
        let started = *self.flushed_at.lock();
        let tables = self.versions.current().tables.clone();
        background.keep_tables(|id| tables.contains_key(&id));
        let names: Vec<(Identity, TableName)> =
            tables.iter().map(|(id, table)| (*id, table.name().clone())).collect();
        // A version that is held keeps the disk space of compacted segments.
        drop(tables);
        let is_wanted = || {
            !self.is_stopped()
                && !self.running.is_awaited()
                && (mode != CompactionMode::Idle || *self.flushed_at.lock() == started)
        };
        let compact = |id| loop {
            if !is_wanted() {
                return Err(given_up());
            }
            if self.background_step(id, mode, |_| true, &Call::default())?.is_none() {
                return Ok(());
            }
        };
        for (id, name) in &names {
            if background.is_due(COMPACTION, Some(*id)) {
                // The failure is kept; only a full compaction returns it.
                background.run(COMPACTION, Some((*id, name)), || compact(*id)).ok();
            }
        }
    }

    /// Runs one background compaction. A compaction that was stopped has neither failed nor succeeded.
    pub(super) fn background_step(
        &self,
        id: Identity,
        mode: CompactionMode,
        is_among: impl Fn(&str) -> bool,
        call: &Call,
    ) -> Result<Option<CompactionResult>> {
        match self.compact_step(id, mode, is_among, call) {
            Err(_) if self.is_stopped() => Err(given_up()),
            done => done,
        }
    }

    /// Runs one compaction among certain files; `None` if there is nothing to do.
    fn compact_step(
        &self,
        id: Identity,
        mode: CompactionMode,
        is_among: impl Fn(&str) -> bool,
        call: &Call,
    ) -> Result<Option<CompactionResult>> {
        let _collected = self.versions.collect_obsolete();
        let version = self.versions.current();
        let Some(table) = version.tables.get(&id) else { return Ok(None) };
        let oldest = oldest_kept(table, &version.manifest.clock, now());
        let epochs = table.entry().files_by_epoch();
        for (side, files) in
            Side::BOTH.into_iter().flat_map(|side| epochs.values().map(move |f| (side, f)))
        {
            let is_among = |segment: &&Arc<Segment>| {
                let file = segment.file_name();
                file.is_some_and(|file| files.contains(file) && is_among(file))
            };
            let segments: Vec<_> = table.segments(side).iter().filter(is_among).cloned().collect();
            let stats: Vec<SegmentStats> = segments
                .iter()
                .map(|s| segment_stats(s, oldest, mode, self.versions.limits))
                .collect();
            if let Some(choice) = next_compaction(&stats, mode, self.versions.limits.segment_rows) {
                let inputs: Vec<Arc<Segment>> = choice
                    .inputs
                    .iter()
                    .filter_map(|number| segments.get(*number).cloned())
                    .collect();
                let (inputs, bits) = (inputs.as_slice(), choice.prefix_bits);
                let done = self.run_and_publish((id, &version), side, (inputs, bits), call);
                return done.map(Some);
            }
        }
        Ok(None)
    }

    fn run_and_publish(
        &self,
        (id, version): (Identity, &StoreVersion),
        side: Side,
        (inputs, prefix_bits): (&[Arc<Segment>], u8),
        call: &Call,
    ) -> Result<CompactionResult> {
        let began = sync::instant();
        let table = self.versions.table_of(version, id)?;
        let (folder, mut made, mut made_rows) = (self.versions.segments(), Vec::new(), 0);
        let replaced: HashSet<String> =
            inputs.iter().filter_map(|input| input.file_name()).map(str::to_owned).collect();
        let at = now();
        let oldest = oldest_kept(table, &version.manifest.clock, at);
        let drops = inputs.iter().any(|input| input.header.oldest < oldest);
        let mut is_outdated = false;
        let is_finer = inputs.iter().any(|input| input.header.prefix_bits < prefix_bits);
        let published = self.versions.add_segments(
            |names| {
                let job = CompactionJob {
                    disk: &*self.versions.disk,
                    folder: &folder,
                    names,
                    run_bytes: self.versions.limits.run_bytes,
                    row_rules: &table.row_rules,
                    oldest,
                    stop: &self.stop,
                    call,
                };
                let merged = run(&job, side, inputs, prefix_bits)?;
                self.versions.disk.sync_dir(&folder).map_err(|e| io_error("sync", &folder, e))?;
                Ok(merged)
            },
            |merged| {
                made.extend(merged.iter().map(|segment| segment.file.clone()));
                made_rows = merged.iter().map(|segment| segment.rows).sum::<u64>();
                self.versions.publish(|manifest| {
                    let entry = manifest.table_mut(id)?;
                    let inputs = entry.segments.iter().filter(|s| replaced.contains(&s.file));
                    let (there, epoch) =
                        inputs.fold((0, 0), |(n, epoch), s| (n + 1, epoch.max(s.epoch)));
                    // Rows that were dropped may be visible by now; a replace may have removed the inputs.
                    if (drops && entry.oldest_kept(at) < oldest) || there < replaced.len() {
                        is_outdated = true;
                        let what = "the table changed while rows were compacted";
                        return Err(Error::new(ErrorKind::Busy, what));
                    }
                    entry.segments.retain(|segment| !replaced.contains(&segment.file));
                    if drops {
                        raise_watermark(entry, table, oldest);
                    }
                    let made_with = version.manifest.tombstone_files(id);
                    entry.add_to_epoch(epoch, merged, made_with, now().millis());
                    Ok(())
                })
            },
        );
        let name = table.name().as_str();
        if is_outdated {
            debug!(table = name, "the table changed while it was compacted: it is compacted again");
            return Ok(CompactionResult::default());
        }
        published?;
        self.note_stall_level();
        let (segments, rows) =
            (inputs.len(), inputs.iter().map(|input| input.header.rows).sum::<u64>());
        let (made_segments, ms) = (made.len(), millis(began));
        let metrics = &self.versions.metrics;
        metrics.compaction.observe(began.elapsed().as_secs_f64());
        metrics.compacted_bytes.inc_by(inputs.iter().map(|input| input.header.file_len()).sum());
        debug!(
            table = name,
            ?side,
            segments,
            rows,
            made_segments,
            made_rows,
            ms,
            "segments were compacted"
        );
        Ok(CompactionResult { inputs: replaced, made, is_finer })
    }

    /// Stops running compactions, and runs `work` before others begin.
    pub(crate) fn without_compacting<T>(&self, work: impl FnOnce() -> T) -> T {
        self.stop.store(true, Relaxed);
        let _running = self.running.lock();
        let done = work();
        self.stop.store(false, Relaxed);
        done
    }
}

/// The end of background compactions that are no longer wanted.
fn given_up() -> Error {
    Error::new(ErrorKind::Cancelled, "other work goes first")
}

/// Hides in every known segment the rows that a compaction dropped because of their age. Otherwise they would
/// come back in one direction if the retention were made longer.
fn raise_watermark(entry: &mut TableEntry, there: &TableVersion, date: SeenAt) {
    let known: HashSet<&str> = there.segment_files().collect();
    for segment in &mut entry.segments {
        if segment.oldest < date && known.contains(segment.file.as_str()) {
            segment.retention_watermark = segment.retention_watermark.max(Some(date));
        }
    }
}
