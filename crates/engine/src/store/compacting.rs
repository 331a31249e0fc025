//! When segments are merged, and how that is published.

use super::shared::Shared;
use super::view::{TableView, View};
use crate::compact::{Choice, Effort, Merging, Sized, choose, merge};
use crate::errors::io_error;
use crate::segment::Segment;
use crate::workers::lock;
use idmatch_model::{SeenAt, Side, TableName};
use idmatch_store::{Result, now};
use std::collections::HashSet;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// So long after a flush there is time for merges that can wait.
const IDLE_AFTER: Duration = Duration::from_secs(5);

/// See [`sized`].
const OLD_SHARE: u64 = 8;

impl Shared {
    /// Writes what was upserted as segments, and merges until each range has one.
    pub(crate) fn compact(self: &Arc<Shared>, table: &TableName) -> Result<()> {
        let _hold = self.hold()?;
        self.flush_all()?;
        let _compacting = lock(&self.compacting);
        while self.compact_step(table, Effort::Full)? {}
        Ok(())
    }

    /// Merges what is worth it, in the background of upserts, unless that is being done already.
    pub(super) fn compact_in_background(self: &Arc<Shared>) {
        let Ok(_compacting) = self.compacting.try_lock() else { return };
        // Only while this process writes anyway.
        let Some(_hold) = lock(&self.hold).upgrade() else { return };
        self.compact_all(Effort::Background);
    }

    /// Merges what is left over when nothing has been flushed for a while. Waits for that here, one
    /// thread at a time.
    pub(super) fn compact_when_idle(self: &Arc<Shared>) {
        if self.is_waiting_for_idle.swap(true, AcqRel) {
            return;
        }
        while self.is_in_use() && self.flushed_at().elapsed() < IDLE_AFTER {
            std::thread::sleep(IDLE_AFTER / 50);
        }
        if let Ok(_compacting) = self.compacting.try_lock()
            && let Some(_hold) = lock(&self.hold).upgrade()
        {
            self.compact_all(Effort::Idle);
        }
        self.is_waiting_for_idle.store(false, Release);
    }

    /// Whether anyone has the store besides a thread of its own, and keeps it.
    fn is_in_use(self: &Arc<Shared>) -> bool {
        Arc::strong_count(self) > 1 && !self.closing.load(Relaxed)
    }

    fn compact_all(self: &Arc<Shared>, effort: Effort) {
        let started = self.flushed_at();
        let names: Vec<TableName> = self.view().tables.keys().cloned().collect();
        for name in names {
            // What fails here fails again where somebody is told: at the next full compaction.
            while self.is_in_use()
                && (effort != Effort::Idle || self.flushed_at() == started)
                && let Ok(true) = self.compact_step(&name, effort)
            {}
        }
    }

    /// Does one merge, if there is one to do.
    fn compact_step(&self, name: &TableName, effort: Effort) -> Result<bool> {
        let view = self.view();
        let Some(table) = view.tables.get(name) else { return Ok(false) };
        for side in Side::BOTH {
            let segments = table.segments(side);
            let sized: Vec<Sized> =
                segments.iter().map(|segment| sized(segment, table, effort)).collect();
            if let Some(choice) = choose(&sized, effort, self.limits.segment_rows) {
                self.merge_and_publish(name, &view, side, &choice)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn merge_and_publish(
        &self,
        name: &TableName,
        view: &View,
        side: Side,
        choice: &Choice,
    ) -> Result<()> {
        let Some(table) = view.tables.get(name) else { return Ok(()) };
        let segments = table.segments(side);
        let inputs: Vec<Arc<Segment>> =
            choice.inputs.iter().filter_map(|number| segments.get(*number).cloned()).collect();
        let folder = self.segments();
        let gone: HashSet<String> = inputs.iter().filter_map(|input| input.file_name()).collect();
        self.add_segments(
            |names| {
                let merging = Merging {
                    disk: &*self.disk,
                    folder: &folder,
                    names,
                    run_bytes: self.limits.run_bytes,
                    rules: &table.rules,
                    oldest: oldest_kept(table),
                    stop: &self.closing,
                };
                let merged = merge(&merging, side, &inputs, choice.prefix_bits)?;
                self.disk.sync_dir(&folder).map_err(|e| io_error("sync", &folder, e))?;
                Ok(merged)
            },
            |merged| {
                self.publish(|manifest| {
                    if let Some(entry) = manifest.tables.get_mut(name) {
                        entry.segments.retain(|segment| !gone.contains(&segment.file));
                        entry.add(merged, view.manifest.erasures(name));
                    }
                    Ok(())
                })
            },
        )?;
        // Those who have them open keep them; those who copy files have them until they are done.
        let _copying = self.copying.write().unwrap_or_else(PoisonError::into_inner);
        self.remove_files(inputs.iter().map(|input| input.path().to_owned()));
        Ok(())
    }

    /// Has merges end, and does something before others begin.
    pub(super) fn without_compacting<T>(&self, work: impl FnOnce() -> T) -> T {
        self.closing.store(true, Relaxed);
        let _compacting = lock(&self.compacting);
        let done = work();
        self.closing.store(false, Relaxed);
        done
    }
}

/// Bytes of the segments that merges in the background will write anew.
pub(super) fn pending_bytes(table: &TableView, segment_rows: u64) -> u64 {
    let mut bytes = 0;
    for side in Side::BOTH {
        let mut left: Vec<&Arc<Segment>> = table.segments(side).iter().collect();
        let sized = |left: &[&Arc<Segment>]| -> Vec<Sized> {
            left.iter().map(|segment| sized(segment, table, Effort::Idle)).collect()
        };
        while let Some(choice) = choose(&sized(&left), Effort::Idle, segment_rows) {
            let mut number = 0;
            left.retain(|segment| {
                let stays = !choice.inputs.contains(&number);
                number += 1;
                bytes += if stays { 0 } else { segment.header.file_len() };
                stays
            });
        }
    }
    bytes
}

fn oldest_kept(table: &TableView) -> SeenAt {
    let retention = table.options.retention.as_ref();
    retention.map_or(SeenAt::EPOCH, |period| period.before(now()))
}

/// Rows that are too old, or were erased, are always hidden. To write a segment anew without them
/// is worth it when that is asked for; in the background, only when the oldest are older by some share
/// of the retention, so that it happens to a segment a few times in all.
fn sized(segment: &Segment, table: &TableView, effort: Effort) -> Sized {
    let header = &segment.header;
    let oldest = oldest_kept(table);
    let is_stale = match effort {
        Effort::Full => header.oldest < oldest || segment.has_erased(),
        Effort::Background | Effort::Idle => {
            let share = now().millis().saturating_sub(oldest.millis()) / OLD_SHARE;
            header.oldest.millis() < oldest.millis().saturating_sub(share)
        }
    };
    Sized { prefix_bits: header.prefix_bits, prefix: header.prefix, rows: header.rows, is_stale }
}
