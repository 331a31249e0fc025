//! Memtables that nothing is added to any more become segments; their journal files go.

use super::Manifest;
use super::shared::Shared;
use super::view::LiveSet;
use crate::erasures::Rules;
use crate::errors::io_error;
use crate::journal;
use crate::memtable::{Commit, Memtable};
use crate::names::FileNames;
use crate::part::Part;
use crate::rows;
use crate::segment::SegmentInfo;
use crate::workers::{self, lock};
use idmatch_model::{Keep, Side, TableName};
use idmatch_store::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What is known of flushes.
pub(crate) struct State {
    is_running: bool,
    /// When the last one began.
    begun: Instant,
    /// Why the last one failed.
    error: Option<(ErrorKind, String)>,
}

impl Default for State {
    fn default() -> State {
        State { is_running: false, begun: Instant::now(), error: None }
    }
}

impl Shared {
    /// When the last flush began.
    pub(super) fn flushed_at(&self) -> Instant {
        lock(&self.flush).begun
    }

    /// Starts writing the memtables of all journal files up to this one, in the background,
    /// unless that goes on already.
    pub(super) fn start_flush(self: &Arc<Shared>, last: u64) {
        let mut state = lock(&self.flush);
        if state.is_running {
            return;
        }
        let shared = self.clone();
        let started =
            std::thread::Builder::new().name("idmatch-flush".to_owned()).spawn(move || {
                // Others wait for the end of it, whatever that is.
                let outcome = catch_unwind(AssertUnwindSafe(|| shared.flush(last)))
                    .unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "the flush panicked")));
                let mut state = lock(&shared.flush);
                state.error = outcome.err().map(|e| (e.kind(), e.chain()));
                state.is_running = false;
                shared.flushed.notify_all();
                drop(state);
                // What others wait for comes first.
                workers::stand_back();
                shared.compact_in_background();
                shared.compact_when_idle();
            });
        state.begun = Instant::now();
        state.is_running = started.is_ok();
        state.error = started.err().map(|e| (ErrorKind::Io, format!("cannot start a thread: {e}")));
    }

    /// Waits until the memtables of all journal files before this one are segments.
    pub(super) fn flush_before(self: &Arc<Shared>, number: u64) -> Result<()> {
        let Some(last) = number.checked_sub(1) else { return Ok(()) };
        self.start_flush(last);
        self.wait_for_flush();
        match lock(&self.flush).error.take() {
            Some((kind, text)) => Err(Error::new(kind, text)),
            None => Ok(()),
        }
    }

    /// Writes all that was upserted as segments.
    pub(super) fn flush_all(self: &Arc<Shared>) -> Result<()> {
        let mut slot = lock(&self.writer);
        if let Some(writer) = slot.as_mut() {
            self.end_file(writer);
        }
        // With the writer at rest nothing is added; an earlier flush may be about less.
        while let Some(last) = self.view().live.last().map(|set| set.journal) {
            self.flush_before(last + 1)?;
        }
        Ok(())
    }

    pub(super) fn wait_for_flush(&self) {
        let mut state = lock(&self.flush);
        while state.is_running {
            state = self.flushed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn flush(&self, last: u64) -> Result<()> {
        let view = self.view();
        let sets: Vec<&LiveSet> = view.live.iter().filter(|set| set.journal <= last).collect();
        if sets.is_empty() {
            return Ok(());
        }
        let mut tables: BTreeMap<&TableName, Vec<&Memtable>> = BTreeMap::new();
        for (name, memtable) in sets.iter().flat_map(|set| &set.tables) {
            tables.entry(name).or_default().push(memtable);
        }
        self.add_segments(
            |names| {
                let made = Mutex::new(Vec::new());
                let tasks: Vec<_> = tables
                    .iter()
                    .flat_map(|(name, memtables)| Side::BOTH.map(|side| (*name, memtables, side)))
                    .collect();
                workers::for_each(Side::BOTH.len(), &tasks, |(name, memtables, side)| {
                    let table = view.tables.get(*name);
                    let rules = table.map_or_else(|| Rules::new(Keep::All), |t| t.rules.clone());
                    let segments = self.write_side(names, &rules, *side, memtables)?;
                    lock(&made).push(((*name).clone(), segments));
                    Ok(())
                })?;
                let made = std::mem::take(&mut *lock(&made));
                let segments = self.segments();
                self.disk.sync_dir(&segments).map_err(|e| io_error("sync", &segments, e))?;
                Ok(made)
            },
            |made| self.publish_flushed(made, &view.manifest, last),
        )?;
        let folder = self.journal();
        self.remove_files(sets.iter().map(|set| journal::file(&folder, set.journal)));
        Ok(())
    }

    /// From here on the rows are in segments, and no longer in memtables.
    fn publish_flushed(
        &self,
        made: Vec<(TableName, Vec<SegmentInfo>)>,
        made_with: &Manifest,
        last: u64,
    ) -> Result<()> {
        let mut read = lock(&self.publishing);
        self.publish_locked(
            |manifest| {
                for (name, segments) in made {
                    if let Some(table) = manifest.tables.get_mut(&name) {
                        table.add(segments, made_with.erasures(&name));
                    }
                }
                manifest.journal.first = last + 1;
                manifest.journal.closed =
                    manifest.journal.closed.filter(|(number, _)| *number > last);
                Ok(())
            },
            |view| {
                let live = view.live.iter().filter(|set| set.journal > last).cloned().collect();
                view.with_live(live)
            },
        )?;
        read.retain(|number, _| *number > last);
        drop(read);
        self.note_backlog();
        Ok(())
    }

    /// Writes the rows of a table's memtables in one direction.
    fn write_side(
        &self,
        names: &FileNames<'_>,
        rules: &Rules,
        side: Side,
        memtables: &[&Memtable],
    ) -> Result<Vec<SegmentInfo>> {
        let total = memtables.iter().map(|memtable| memtable.rows()).sum();
        let prefix_bits = Part::prefix_bits(total, self.limits.segment_rows);
        let mut written = Vec::new();
        for parts in Part::groups(prefix_bits) {
            let mut found = Vec::new();
            for part in &parts {
                for memtable in memtables {
                    memtable.copy_rows(side, *part, Commit::MAX, &mut found);
                }
            }
            if found.is_empty() {
                continue;
            }
            let prefix = parts.first().map_or(0, |part| part.first_hash());
            let sorted = rows::sorted(&found, rules, side, prefix_bits, prefix)?;
            written.extend(sorted.finish(&*self.disk, &self.segments().join(names.take()))?);
        }
        Ok(written)
    }
}
