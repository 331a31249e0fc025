//! When segments are merged, and how that is published.

use super::manifest::TableEntry;
use super::shared::Shared;
use super::view::{TableView, View};
use crate::compact::{Effort, Merging, Sized, choose, merge};
use crate::errors::io_error;
use crate::limits::MemoryLimits;
use crate::segment::Segment;
use crate::workers::{lock, try_lock};
use idmatch_model::{SeenAt, Side, TableName};
use idmatch_store::{Error, ErrorKind, Result, now};
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

/// What became of the files of a merge; nothing, where it has to be done again.
#[derive(Default)]
pub(super) struct Merged {
    gone: HashSet<String>,
    /// What was made of them.
    made: Vec<String>,
    /// Whether those cover finer ranges, and may have to be merged once more.
    is_finer: bool,
}

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
        while let Some(merged) =
            self.compact_step(table, Effort::Full, |file| left.contains(file))?
        {
            left.retain(|file| !merged.gone.contains(file));
            if merged.is_finer {
                left.extend(merged.made);
            }
            self.compact_newcomers(&left)?;
        }
        Ok(())
    }

    /// Merges what came while all was being merged, where writers wait for that.
    fn compact_newcomers(&self, left: &HashSet<String>) -> Result<()> {
        for name in self.crowded_tables() {
            let is_new = |file: &str| !left.contains(file);
            while self.crowded_tables().contains(&name)
                && self.compact_step(&name, Effort::Background, is_new)?.is_some()
            {}
        }
        Ok(())
    }

    /// Merges what is worth it, in the background of upserts, unless that is being done already.
    pub(super) fn compact_in_background(self: &Arc<Shared>) {
        let Some(_compacting) = try_lock(&self.compacting) else { return };
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
        if let Some(_compacting) = try_lock(&self.compacting)
            && let Some(_hold) = lock(&self.hold).upgrade()
        {
            self.compact_all(Effort::Idle);
        }
        self.is_waiting_for_idle.store(false, Release);
    }

    /// Whether anyone has the store, and keeps it.
    pub(super) fn is_in_use(&self) -> bool {
        !self.closing.load(Relaxed)
    }

    fn compact_all(self: &Arc<Shared>, effort: Effort) {
        let started = self.flushed_at();
        let names: Vec<TableName> = self.view().tables.keys().cloned().collect();
        for name in names {
            // What fails here fails again where somebody is told: at the next full compaction.
            while self.is_in_use()
                && (effort != Effort::Idle || self.flushed_at() == started)
                && let Ok(Some(_)) = self.compact_step(&name, effort, |_| true)
            {}
        }
    }

    /// Does one merge, if there is one to do among certain files.
    pub(super) fn compact_step(
        &self,
        name: &TableName,
        effort: Effort,
        is_among: impl Fn(&str) -> bool,
    ) -> Result<Option<Merged>> {
        let view = self.view();
        let Some(table) = view.tables.get(name) else { return Ok(None) };
        for side in Side::BOTH {
            let is_among =
                |segment: &&Arc<Segment>| segment.file_name().is_some_and(|file| is_among(&file));
            let segments: Vec<_> = table.segments(side).iter().filter(is_among).cloned().collect();
            let sized: Vec<Sized> =
                segments.iter().map(|s| sized(s, table, effort, self.limits)).collect();
            if let Some(choice) = choose(&sized, effort, self.limits.segment_rows) {
                let inputs: Vec<Arc<Segment>> = choice
                    .inputs
                    .iter()
                    .filter_map(|number| segments.get(*number).cloned())
                    .collect();
                return self
                    .merge_and_publish(name, &view, side, &inputs, choice.prefix_bits)
                    .map(Some);
            }
        }
        Ok(None)
    }

    fn merge_and_publish(
        &self,
        name: &TableName,
        view: &View,
        side: Side,
        inputs: &[Arc<Segment>],
        prefix_bits: u8,
    ) -> Result<Merged> {
        let table = self.table_of(view, name)?;
        let (folder, mut made) = (self.segments(), Vec::new());
        let gone: HashSet<String> = inputs.iter().filter_map(|input| input.file_name()).collect();
        let oldest = oldest_kept(table);
        let drops = inputs.iter().any(|input| input.header.oldest < oldest);
        let mut is_outdated = false;
        let is_finer = inputs.iter().any(|input| input.header.prefix_bits < prefix_bits);
        let published = self.add_segments(
            |names| {
                let merging = Merging {
                    disk: &*self.disk,
                    folder: &folder,
                    names,
                    run_bytes: self.limits.run_bytes,
                    rules: &table.rules,
                    oldest,
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
                        if drops && entry.options.retention != table.options.retention {
                            // What was left out may be shown by now.
                            is_outdated = true;
                            let what = "the retention changed while rows were merged";
                            return Err(Error::new(ErrorKind::Busy, what));
                        }
                        entry.segments.retain(|segment| !gone.contains(&segment.file));
                        if drops {
                            hide_before(entry, table, oldest);
                        }
                        entry.add(merged, view.manifest.erasures(name));
                    }
                    Ok(())
                })
            },
        );
        if is_outdated {
            return Ok(Merged::default());
        }
        published?;
        self.note_backlog();
        // Those who have them open keep them; those who copy files have them until they are done.
        let _copying = self.copying.write().unwrap_or_else(PoisonError::into_inner);
        self.remove_files(inputs.iter().map(|input| input.path().to_owned()));
        Ok(Merged { gone, made, is_finer })
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

/// What a merge left out because of its age is hidden for good in every segment there was, or it would
/// come back in one direction if the retention were made longer.
fn hide_before(entry: &mut TableEntry, there: &TableView, date: SeenAt) {
    let known: HashSet<String> = there.all_segments().filter_map(|s| s.file_name()).collect();
    for segment in &mut entry.segments {
        if segment.oldest < date && known.contains(&segment.file) {
            segment.gone_before = segment.gone_before.max(Some(date));
        }
    }
}

/// The oldest date that a table's retention leaves.
fn oldest_kept(table: &TableView) -> SeenAt {
    let retention = table.options.retention.as_ref();
    retention.map_or(SeenAt::EPOCH, |period| period.before(now()))
}

/// Rows that are too old, or were erased, are always hidden. To write a segment anew without them
/// is worth it when that is asked for; in the background, only when the oldest are older by some share
/// of the retention, so that it happens to a segment a few times in all.
pub(super) fn sized(
    segment: &Segment,
    table: &TableView,
    effort: Effort,
    limits: MemoryLimits,
) -> Sized {
    let header = &segment.header;
    let oldest = oldest_kept(table);
    let is_stale = match effort {
        Effort::Full => header.oldest < oldest || segment.has_hidden(),
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
