//! Catching up with what other processes, running or dead, have published and written to the journal. So
//! a store opens after a crash.

use super::paths::list;
use super::{JournalPositions, Manifest, MemtableSet, OpenSegments, VersionSet};
use crate::disk::corrupt;
use crate::journal::{self, Entries, Progress};
use crate::memtable::Memtable;
use idmatch_store::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A writer may remove files between the reading of the manifest and of its segments.
const TRIES: u32 = 100;

impl VersionSet {
    /// Takes over what any process has published or upserted. The caller has the publish lock, whose
    /// content this is.
    pub(crate) fn catch_up(&self, read: &mut JournalPositions) -> Result<()> {
        // A try keeps what the one before has opened. So it ends before a writer that compacts has replaced
        // everything again.
        let mut opened = self.current().opened();
        let mut tries = 0;
        while let Some(manifest) = Manifest::read(&*self.disk, &self.root)? {
            tries += 1;
            let done = self.catch_up_with(manifest.clone(), read, &mut opened);
            // Files that a changed manifest no longer names may have been missing.
            if tries == TRIES || self.published()? == manifest {
                return done;
            }
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
        // Positions count only when all of it is visible.
        let mut read_now = read.clone();
        read_now.retain(|number, _| *number >= first);
        let mut pending = Vec::new();
        let mut sets: Vec<MemtableSet> =
            before.memtables.iter().filter(|set| set.journal >= first).cloned().collect();
        let version = match manifest == before.manifest {
            true => None,
            false => Some(self.open_version(manifest.clone(), opened)?),
        };
        let tables = &version.as_ref().unwrap_or(&before).manifest.tables;
        let mut commit = self.last_commit();
        let started = commit;
        for number in numbers {
            let from = read_now.get(&number).copied().unwrap_or(0);
            let (mut set, is_new) = match sets.iter().find(|set| set.journal == number) {
                Some(set) => (set.clone(), false),
                None => (MemtableSet { journal: number, tables: BTreeMap::new() }, true),
            };
            let mut take = |entries: Entries<'_>| {
                commit += 1;
                for batch in entries {
                    let batch = batch.ok_or_else(malformed)?;
                    let known = tables.iter().find(|(name, _)| name.as_str() == batch.table);
                    let (name, _) = known.ok_or_else(malformed)?;
                    let memtable =
                        set.tables.entry(name.clone()).or_insert_with(|| Arc::new(Memtable::new()));
                    if is_new {
                        memtable.add(commit, batch.count, batch.rows).ok_or_else(malformed)?;
                    } else {
                        // Other threads read this memtable: it gets nothing that might have to be taken
                        // back.
                        pending.push((memtable.clone(), commit, batch.count, batch.rows.to_vec()));
                    }
                }
                Ok(())
            };
            match journal::read(&*self.disk, &folder, number, from, &mut take)? {
                Progress::Gone => {
                    let what = "a file of the journal is gone";
                    return Err(corrupt(&journal::file(&folder, number), 0, what));
                }
                Progress::Read { end, before } => {
                    if let (Some(before), Some(previous)) = (before, number.checked_sub(1))
                        && previous >= first
                    {
                        let end = read_now.get(&previous).copied().unwrap_or(0);
                        journal::check_end(&folder, previous, end, before)?;
                    }
                    read_now.insert(number, end);
                }
            }
            sets.retain(|other| other.journal != number);
            sets.push(set);
        }
        if let Some((number, length)) = manifest.journal.closed
            && number >= first
        {
            let end = read_now.get(&number).copied().unwrap_or(0);
            journal::check_end(&folder, number, end, length)?;
        }
        for (memtable, commit, count, rows) in pending {
            memtable.add(commit, count, &rows).ok_or_else(malformed)?;
        }
        if version.is_some() || commit != started || sets.len() != before.memtables.len() {
            let version = version.as_ref().unwrap_or(&before);
            self.install(version.with_memtables(sets));
        }
        self.set_last_commit(commit);
        *read = read_now;
        Ok(())
    }
}

fn malformed() -> Error {
    let what = "a record of the journal is whole but malformed; restore the store from a backup";
    Error::new(ErrorKind::Corrupt, what)
}
