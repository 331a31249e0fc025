//! Write stalls: what upserts and loads do while compactions are behind.
//!
//! Without a bound, lookups get slower for as long as rows come faster than they are compacted. The stall
//! level is the number of segments that the worst range has above 64. Each commit is slowed down in
//! proportion to its bytes and this level. Above 256 segments of a range, upserts wait for compactions, which
//! run in a thread of their own. Loads are not slowed down: after their commit they compact some of the
//! backlog. One more stall is not decided here: `write_path` waits for flushes while all memtables are full.
//! The metrics count slowdowns, waits for compactions and waits for flushes separately (`metrics::Stall`).
//! Must not know rows or the journal. Invariant: only ranges that a compaction would help count, so no write
//! waits in vain.

use super::compactor::Compactor;
use super::segment_stats::{oldest_kept, segment_stats};
use super::strategy::{CompactionMode, SegmentStats, next_compaction};
use crate::background::COMPACTION;
use crate::identity::Identity;
use crate::metrics::Stall;
use crate::sync;
use crate::sync::Ordering::{AcqRel, Relaxed, Release};
use crate::versions::{Clock, TableVersion};
use crate::writer_lock::WriterGuard;
use idmatch_model::Side;
use idmatch_store::{Call, Result, now};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

/// From this many overlapping segments on, upserts are slowed down. A large compaction lasts as long as half
/// a minute of flushes; with half this value upserts were slow and fast by turns.
const SLOWDOWN_SEGMENTS: usize = 64;

/// From this many overlapping segments on, upserts stop.
const STOP_SEGMENTS: usize = 256;

/// The delay for every byte and every segment beyond the slowdown limit: 20 segments limit upserts to
/// 200 MB/s.
const SLOWDOWN_NS_PER_BYTE: f64 = 0.25;

/// Shorter delays are summed up, because a sleep cannot be that short.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// The pause between two looks of an upsert that waits, and of compactions that wait for another one.
const PAUSE: Duration = Duration::from_millis(10);

impl Compactor {
    /// Updates the stall level. Called whenever segments are added or compacted.
    pub(crate) fn note_stall_level(&self) {
        let version = self.versions.current();
        let worst = version
            .tables
            .values()
            .map(|table| (self.max_overlap(table, &version.manifest.clock), table.name()))
            .max();
        let (segments, table) = worst.map_or((0, ""), |(most, name)| (most, name.as_str()));
        let is_far = segments > STOP_SEGMENTS && !self.stalled_tables(STOP_SEGMENTS).is_empty();
        self.is_far_behind.store(is_far, Relaxed);
        if segments <= STOP_SEGMENTS {
            self.is_told.store(false, Relaxed);
        } else if is_far && !self.is_told.swap(true, Relaxed) {
            let limit = STOP_SEGMENTS;
            warn!(table, segments, limit, "compactions are far behind: upserts wait");
        }
        let level = segments.saturating_sub(SLOWDOWN_SEGMENTS);
        let former = self.stall_level.swap(level, Relaxed);
        if former == 0 && level > 0 {
            warn!(
                table,
                segments,
                limit = SLOWDOWN_SEGMENTS,
                "compactions are behind: upserts are slowed down"
            );
        } else if former > 0 && level == 0 {
            info!(segments, "compactions caught up: upserts are no longer slowed down");
        }
    }

    /// Slows down an upsert of this many bytes if compactions are behind. `debt` sums up delays that were too
    /// short to sleep for.
    pub(crate) fn slow_down(&self, bytes: usize, debt: &mut Duration) {
        let nanos = bytes as f64 * self.stall_level.load(Relaxed) as f64 * SLOWDOWN_NS_PER_BYTE;
        *debt += Duration::from_nanos(nanos as u64);
        if *debt >= SHORTEST_SLEEP {
            let pause = std::mem::take(debt);
            self.versions.metrics.stall(Stall::Slowdown, || sync::sleep(pause));
        }
    }

    /// Waits while compactions are far behind. The caller holds no lock that a compaction needs.
    ///
    /// # Errors
    /// `Cancelled`, and the compactions go on.
    pub(crate) fn wait_for_compactions(self: &Arc<Compactor>, call: &Call) -> Result<()> {
        if !self.is_far_behind.load(Relaxed) {
            return Ok(());
        }
        // Only a process that writes compacts. It may begin to write with this upsert.
        let Some(guard) = self.writer_lock.held() else { return Ok(()) };
        self.versions.metrics.stall(Stall::Stop, || {
            while self.is_far_behind.load(Relaxed) {
                call.check()?;
                self.start_catching_up(&guard);
                sync::sleep(PAUSE);
            }
            Ok(())
        })
    }

    /// Has another thread catch up, unless one does already: it goes on when an upsert is given up.
    fn start_catching_up(self: &Arc<Compactor>, guard: &Arc<WriterGuard>) {
        if self.is_catching_up.swap(true, AcqRel) {
            return;
        }
        let (compactor, guard) = (self.clone(), guard.clone());
        let started = sync::spawn("idmatch-compact", move || {
            compactor.catch_up();
            drop(guard);
        });
        if started.is_err() {
            self.catch_up();
        }
    }

    /// Compacts until no range stops upserts, or no compaction helps. Upserts go on then.
    fn catch_up(&self) {
        while !self.is_stopped()
            && let Some(id) = self.stalled_tables(STOP_SEGMENTS).first()
        {
            match self.running.try_lock() {
                Some(_running) if !self.compact_some(*id, |_| true, &Call::default()) => break,
                Some(_running) => {}
                None => sync::sleep(PAUSE),
            }
        }
        self.is_far_behind.store(false, Relaxed);
        self.is_catching_up.store(false, Release);
    }

    /// Compacts ranges beyond the slowdown limit, unless a compaction runs already or the caller gives up.
    pub(crate) fn compact_backlog(&self, call: &Call) {
        let Some(_running) = self.running.try_lock() else { return self.note_stall_level() };
        while !self.is_stopped()
            && !self.running.is_awaited()
            && let Some(id) = self.slowed_tables().first()
            && self.compact_some(*id, |_| true, call)
        {}
    }

    /// Compacts segments that came during a full compaction, where they slow down upserts. The segments in
    /// `left` are left to the full compaction, and those that come meanwhile to the next call: it ends,
    /// however fast others write. A failure does not end the full compaction: it may be of another table.
    pub(super) fn compact_newcomers(&self, left: &HashSet<String>, call: &Call) {
        for id in self.slowed_tables() {
            let Ok(mut came) = self.files_of(id) else { continue };
            came.retain(|file| !left.contains(file));
            let is_new = |file: &str| came.contains(file);
            while self.slowed_tables().contains(&id) && self.compact_some(id, is_new, call) {}
        }
    }

    /// The number of segments that the worst range has above the slowdown limit.
    pub(crate) fn stall_level(&self) -> usize {
        self.stall_level.load(Relaxed)
    }

    /// The tables that slow down upserts.
    fn slowed_tables(&self) -> Vec<Identity> {
        self.stalled_tables(SLOWDOWN_SEGMENTS)
    }

    /// Compacts some of these segments, as background work; returns whether it did.
    fn compact_some(&self, id: Identity, is_among: impl Fn(&str) -> bool, call: &Call) -> bool {
        let Some(name) = self.versions.current().tables.get(&id).map(|t| t.name().clone()) else {
            return false;
        };
        let step = || self.background_step(id, CompactionMode::Background, is_among, call);
        let done = self.versions.background.run(COMPACTION, Some((id, &name)), step);
        done.is_ok_and(|done| done.is_some())
    }

    /// The tables that have more than `count` segments in a range which a compaction would help. A table
    /// whose compactions fail is left out until the pause after its last failure is over.
    fn stalled_tables(&self, count: usize) -> Vec<Identity> {
        let version = self.versions.current();
        let beyond = version
            .tables
            .iter()
            .filter(|(id, _)| self.versions.background.is_due(COMPACTION, Some(**id)))
            .filter(|(_, table)| self.max_overlap(table, &version.manifest.clock) > count);
        beyond.map(|(id, _)| *id).collect()
    }

    /// The most segments of a range, among the ranges that a compaction would help.
    fn max_overlap(&self, table: &TableVersion, clock: &Clock) -> usize {
        let oldest = oldest_kept(table, clock, now());
        let of_side = |side| {
            if table.most_of_range(side) <= SLOWDOWN_SEGMENTS {
                return 0;
            }
            let mut ranges: HashMap<_, Vec<SegmentStats>> = HashMap::new();
            for segment in table.segments(side) {
                let stats = segment_stats(
                    segment,
                    oldest,
                    CompactionMode::Background,
                    self.versions.limits,
                );
                ranges.entry(segment.header.range()).or_default().push(stats);
            }
            let is_helped = |range: &&Vec<SegmentStats>| {
                range.len() > SLOWDOWN_SEGMENTS
                    && next_compaction(
                        range,
                        CompactionMode::Background,
                        self.versions.limits.segment_rows,
                    )
                    .is_some()
            };
            ranges.values().filter(is_helped).map(Vec::len).max().unwrap_or(0)
        };
        Side::BOTH.into_iter().map(of_side).max().unwrap_or(0)
    }
}
