//! Crash recovery, and the refresh of readers: reads the manifest and the journal that other processes,
//! running or dead, have written. Damage is an error; `recovery` repairs it. Invariant: new rows are
//! visible only after all files were read without error.

use super::paths::list;
use super::{JournalPosition, JournalPositions, Manifest, MemtableSet, OpenSegments, VersionSet};
use crate::disk::corrupt;
use crate::identity::Identity;
use crate::journal::{self, FileHeader, JournalItem, ReadOutcome};
use crate::memtable::Memtable;
use idmatch_store::{Error, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tracing::debug;

/// A writer may remove files between the reading of the manifest and of its segments.
const TRIES: u32 = 100;

impl VersionSet {
    /// Takes over what any process has published or upserted. The caller holds the publish lock; `read` is
    /// the content of that lock.
    pub(crate) fn catch_up(&self, read: &mut JournalPositions) -> Result<()> {
        // Each try keeps the segments that the try before has opened. So the tries end before a writer that
        // compacts has replaced everything again.
        let mut opened = OpenSegments::new();
        let mut tries = 0;
        while let Some(manifest) =
            Manifest::read(&*self.disk, &self.root, &self.current().manifest)?
        {
            tries += 1;
            let done = self.catch_up_with(manifest.clone(), read, &mut opened);
            // Files that a changed manifest no longer names may have been missing.
            if tries == TRIES || self.published()? == manifest {
                return done;
            }
            debug!(tries, "another process published meanwhile: the store is read again");
        }
        Ok(())
    }

    fn catch_up_with(
        &self,
        manifest: Manifest,
        read: &mut JournalPositions,
        opened: &mut OpenSegments,
    ) -> Result<()> {
        let before = self.current();
        let first = manifest.journal.first;
        let folder = self.journal();
        let numbers: BTreeSet<u64> = list(&*self.disk, &folder)?
            .iter()
            .filter_map(|name| journal::number_of(name))
            .filter(|number| *number >= first)
            .collect();
        // Another store, or an older state of this one, may have been put in its place.
        let is_same = !before.manifest.is_published()
            || (manifest.store == before.manifest.store
                && manifest.generation >= before.manifest.generation);
        // The new positions count only once all rows are visible.
        let mut read_now = if is_same { read.clone() } else { JournalPositions::new() };
        read_now.retain(|number, _| *number >= first);
        let mut pending = Vec::new();
        let mut sets: Vec<MemtableSet> = before
            .memtables
            .iter()
            .filter(|set| set.journal >= first && is_same)
            .cloned()
            .collect();
        let version = match manifest == *before.manifest {
            true => None,
            false => Some(self.open_version(manifest.clone(), opened)?),
        };
        let dropped: BTreeSet<Identity> = manifest.dropped.iter().map(|table| table.id).collect();
        let started = self.last_commit();
        // The last commit of the files that are read on. Files that are gone do not count: a recovery writes
        // their rows anew.
        let mut last = read_now.values().map(|position| position.commit).max().unwrap_or(0);
        for number in numbers {
            let from = read_now.get(&number).copied().unwrap_or_default();
            let (mut set, is_new) = match sets.iter().find(|set| set.journal == number) {
                Some(set) => (set.clone(), false),
                None => (self.new_memtable_set(number, from.id), true),
            };
            let previous = number.checked_sub(1).filter(|number| *number >= first);
            let previous =
                previous.map(|number| (number, read_now.get(&number).copied().unwrap_or_default()));
            let (mut id, mut commit_of_file) = (from.id, from.commit);
            let mut take = |item: JournalItem<'_>| {
                let (at, commit, entries) = match item {
                    JournalItem::Header(header) => {
                        id = header.id;
                        return check_header(&folder, manifest.store, header, previous);
                    }
                    JournalItem::Record(at, commit, entries) => (at, commit, entries),
                };
                let malformed = || malformed(&folder, number, at);
                // An interrupted recovery leaves a second copy of the records that it could read.
                if commit <= last {
                    return Ok(());
                }
                last = commit;
                commit_of_file = commit;
                for batch in entries {
                    let batch = batch.ok_or_else(malformed)?;
                    if dropped.contains(&batch.table) {
                        continue;
                    }
                    if !manifest.tables.contains_key(&batch.table) {
                        return Err(malformed());
                    }
                    let new = || Arc::new(Memtable::new(manifest.hash_seed()));
                    let memtable = set.tables.entry(batch.table).or_insert_with(new);
                    if is_new {
                        memtable.add(commit, batch.count, batch.rows).ok_or_else(malformed)?;
                    } else {
                        // Other threads read this memtable, so rows are added only after all files were read
                        // well.
                        let place = (number, at);
                        let rows = batch.rows.to_vec();
                        pending.push((place, memtable.clone(), commit, batch.count, rows));
                    }
                }
                Ok(())
            };
            match journal::read(&*self.disk, &folder, number, from.end, &mut take)? {
                ReadOutcome::Gone => {
                    let what = "a file of the journal is gone";
                    return Err(corrupt(&journal::file(&folder, number), 0, what));
                }
                ReadOutcome::Read { end } => {
                    let commit = commit_of_file;
                    read_now.insert(number, JournalPosition { id, end, commit });
                }
            }
            set.id = id;
            sets.retain(|other| other.journal != number);
            sets.push(set);
        }
        if let Some((number, length)) = manifest.journal.closed
            && number >= first
        {
            let end = read_now.get(&number).map_or(0, |position| position.end);
            journal::check_end(&folder, number, end, length)?;
        }
        for ((number, at), memtable, commit, count, rows) in pending {
            let added = memtable.add(commit, count, &rows);
            added.ok_or_else(|| malformed(&folder, number, at))?;
        }
        let last = last.max(manifest.commit).max(if is_same { started } else { 0 });
        if version.is_some() || last != started || sets.len() != before.memtables.len() {
            let version = version.as_ref().unwrap_or(&before);
            self.install(version.with_memtables(sets));
        }
        self.set_last_commit(last);
        *read = read_now;
        Ok(())
    }
}

/// Refuses a journal file of another store, or one that does not follow the file before.
fn check_header(
    folder: &Path,
    store: Identity,
    header: FileHeader,
    previous: Option<(u64, JournalPosition)>,
) -> Result<()> {
    let damaged = |what| Err(corrupt(&journal::file(folder, header.number), 0, what));
    if header.store != store {
        return damaged("this journal file is of another store");
    }
    let Some((number, previous)) = previous else { return Ok(()) };
    journal::check_end(folder, number, previous.end, header.before)?;
    // A file that a recovery wrote follows no other file.
    if !header.id_before.is_none() && header.id_before != previous.id {
        return damaged("this journal file does not follow the one before");
    }
    Ok(())
}

fn malformed(folder: &Path, number: u64, at: usize) -> Error {
    let what = "a record of the journal is whole but malformed";
    corrupt(&journal::file(folder, number), at, what)
}
