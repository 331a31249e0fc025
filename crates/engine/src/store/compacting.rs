//! When segments are merged, and how that is published.

use super::shared::Shared;
use super::view::{TableView, View};
use crate::compact::{Effort, Merging, Sized, choose, merge};
use crate::errors::io_error;
use crate::limits::MemoryLimits;
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

/// A segment with this share of what is sorted at once is full.
const FULL_SHARE: u64 = 4;

/// See [`sized`].
const OLD_SHARE: u64 = 8;

impl Shared {
    /// Writes what was upserted as segments, and merges until each range has one.
    pub(crate) fn compact(self: &Arc<Shared>, table: &TableName) -> Result<()> {
        let _hold = self.hold()?;
        self.flush_all()?;
        let _compacting = lock(&self.compacting);
        // What comes meanwhile is not for this one, or it might never end. Only names: a view that is
        // held keeps the disk that merged segments took.
        let names = |table: &Arc<TableView>| {
            table.all_segments().filter_map(|segment| segment.file_name()).collect()
        };
        let mut left: HashSet<String> = self.table_of(&self.view(), table).map(names)?;
        while self.compact_step(table, Effort::Full, Some(&mut left))? {}
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

    /// Whether anyone has the store, and keeps it.
    fn is_in_use(&self) -> bool {
        !self.closing.load(Relaxed)
    }

    fn compact_all(self: &Arc<Shared>, effort: Effort) {
        let started = self.flushed_at();
        let names: Vec<TableName> = self.view().tables.keys().cloned().collect();
        for name in names {
            // What fails here fails again where somebody is told: at the next full compaction.
            while self.is_in_use()
                && (effort != Effort::Idle || self.flushed_at() == started)
                && let Ok(true) = self.compact_step(&name, effort, None)
            {}
        }
    }

    /// Does one merge, if there is one to do: among certain files, or all. Of those, the merged
    /// ones go, and what was made of them comes in if it may have to be merged once more.
    fn compact_step(
        &self,
        name: &TableName,
        effort: Effort,
        mut among: Option<&mut HashSet<String>>,
    ) -> Result<bool> {
        let view = self.view();
        let Some(table) = view.tables.get(name) else { return Ok(false) };
        for side in Side::BOTH {
            let is_among = |segment: &&Arc<Segment>| {
                let files = among.as_ref();
                files.is_none_or(|files| segment.file_name().is_some_and(|f| files.contains(&f)))
            };
            let segments: Vec<_> = table.segments(side).iter().filter(is_among).cloned().collect();
            let sized: Vec<Sized> =
                segments.iter().map(|s| sized(s, table, effort, self.limits)).collect();
            if let Some(choice) = choose(&sized, effort, self.limits.segment_rows) {
                let inputs: Vec<Arc<Segment>> = choice
                    .inputs
                    .iter()
                    .filter_map(|number| segments.get(*number).cloned())
                    .collect();
                let made =
                    self.merge_and_publish(name, &view, side, &inputs, choice.prefix_bits)?;
                if let Some(files) = among.as_mut() {
                    let merged: Vec<_> = inputs.iter().filter_map(|s| s.file_name()).collect();
                    files.retain(|file| !merged.contains(file));
                    if inputs.iter().any(|s| s.header.prefix_bits < choice.prefix_bits) {
                        files.extend(made);
                    }
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the names of the files that were made.
    fn merge_and_publish(
        &self,
        name: &TableName,
        view: &View,
        side: Side,
        inputs: &[Arc<Segment>],
        prefix_bits: u8,
    ) -> Result<Vec<String>> {
        let Some(table) = view.tables.get(name) else { return Ok(Vec::new()) };
        let (folder, mut made) = (self.segments(), Vec::new());
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
                let merged = merge(&merging, side, inputs, prefix_bits)?;
                self.disk.sync_dir(&folder).map_err(|e| io_error("sync", &folder, e))?;
                Ok(merged)
            },
            |merged| {
                made.extend(merged.iter().map(|segment| segment.file.clone()));
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
        Ok(made)
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
pub(super) fn pending_bytes(table: &TableView, limits: MemoryLimits) -> u64 {
    let mut bytes = 0;
    for side in Side::BOTH {
        let mut left: Vec<&Arc<Segment>> = table.segments(side).iter().collect();
        let sized = |left: &[&Arc<Segment>]| -> Vec<Sized> {
            left.iter().map(|segment| sized(segment, table, Effort::Idle, limits)).collect()
        };
        while let Some(choice) = choose(&sized(&left), Effort::Idle, limits.segment_rows) {
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
fn sized(segment: &Segment, table: &TableView, effort: Effort, limits: MemoryLimits) -> Sized {
    let header = &segment.header;
    let oldest = oldest_kept(table);
    let is_stale = match effort {
        Effort::Full => header.oldest < oldest || segment.has_erased(),
        Effort::Background | Effort::Idle => {
            let share = now().millis().saturating_sub(oldest.millis()) / OLD_SHARE;
            header.oldest.millis() < oldest.millis().saturating_sub(share)
        }
    };
    Sized {
        prefix_bits: header.prefix_bits,
        prefix: header.prefix,
        rows: header.rows,
        is_full: header.file_len() >= limits.run_bytes as u64 / FULL_SHARE,
        is_stale,
    }
}
