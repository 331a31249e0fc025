//! The eraser: tombstones are published like a load, in one change of the manifest.
//!
//! New tombstones are a file that the manifest names. Rows stay in their segments, which are marked, until
//! these are rewritten; memtables are read through the tombstones anyway.

use super::search::search;
use crate::disk::io_error;
use crate::identity::{Identity, random};
use crate::segment::SegmentInfo;
use crate::sync::{Rank, RankedGuard, RankedMutex};
use crate::tombstones::{TombstoneFile, TombstoneSet, write};
use crate::versions::{FileNames, StoreVersion, TableEntry, TableVersion, VersionSet};
use crate::write::WritePath;
use crate::writer_lock::WriterLock;
use idmatch_model::{ErasureKey, SeenAt, TableName, Target, Window};
use idmatch_store::{Call, Erased, Erasures, Result, now};
use std::collections::HashSet;
use std::sync::Arc;

/// A new tombstone file takes in the tombstones of older files, except of files with at least this many times
/// its tombstones. So files stay few, and a tombstone is rewritten a few times in its life.
const GROWTH: u64 = 4;

/// Erases from the tables of a store. Erasures search side by side, and publish one at a time.
pub(crate) struct Eraser {
    versions: Arc<VersionSet>,
    lock: Arc<WriterLock>,
    writes: Arc<WritePath>,
    /// Held while the list of tombstone files changes.
    running: RankedMutex<()>,
}

impl Eraser {
    pub(crate) fn new(
        versions: Arc<VersionSet>,
        lock: Arc<WriterLock>,
        writes: Arc<WritePath>,
    ) -> Eraser {
        Eraser { versions, lock, writes, running: RankedMutex::new(Rank::Operation, ()) }
    }

    /// Hides all rows of the targets up to a date, in both directions, also rows that arrive later.
    pub(crate) fn erase(
        &self,
        name: &TableName,
        targets: &[Target],
        at: SeenAt,
        call: &Call,
    ) -> Result<Erased> {
        let _guard = self.lock.acquire_for(call)?;
        let _collected = self.versions.collect_obsolete();
        // Other erasures go on while this one searches.
        let (_running, version, searched, found) = loop {
            let (version, last) = self.versions.point();
            let searched = self.versions.table_named(&version, name)?.clone();
            if targets.is_empty() {
                return Ok(Erased::default());
            }
            let shown = searched.visible_window(Window::ALL, now());
            let found = search((&searched, last), targets, (at, shown), call)?;
            let running = self.pause(call)?;
            // Names and tombstone files do not change from here on.
            let version = self.versions.current();
            let table = self.versions.table_named(&version, name)?;
            if table.row_rules.table == searched.row_rules.table {
                break (running, version, searched, found);
            }
        };
        let table = self.versions.table_of(&version, searched.row_rules.table)?;
        let key = match version.manifest.erasure_key()? {
            Some(key) => key,
            None => ErasureKey::new(random()?),
        };
        let mut tombstones = TombstoneSet::default();
        targets.iter().for_each(|target| tombstones.add(key.of(target), at));
        self.publish_tombstones((table, &version), &searched, key, tombstones, |segment| {
            found.files.contains(&segment.file)
        })?;
        Ok(found.erased)
    }

    /// Adds tombstones that are hashed with the key of this store. Only reading a segment would show whether
    /// they hide rows in it. So all segments with old enough rows are marked.
    pub(crate) fn add_tombstones(
        &self,
        id: Identity,
        theirs: &Erasures,
        call: &Call,
    ) -> Result<()> {
        let _running = self.pause(call)?;
        let _guard = self.lock.acquire_for(call)?;
        let _collected = self.versions.collect_obsolete();
        let version = self.versions.current();
        let table = self.versions.table_of(&version, id)?;
        let own = version.manifest.erasure_key()?;
        theirs.check_key(own, table.name())?;
        let mut tombstones = TombstoneSet::default();
        for (hash, at) in &theirs.hashes {
            if table.row_rules.tombstones.hidden(*hash) < Some(*at) {
                tombstones.add(*hash, *at);
            }
        }
        let Some((key, newest)) = own.zip(tombstones.newest()) else { return Ok(()) };
        self.publish_tombstones((table, &version), table, key, tombstones, |segment| {
            segment.oldest <= newest
        })
    }

    /// Gives the store a tombstone key if it has none; returns the key it uses.
    pub(crate) fn adopt_key(&self, key: ErasureKey, call: &Call) -> Result<ErasureKey> {
        let _running = self.pause(call)?;
        let _guard = self.lock.acquire_for(call)?;
        if let Some(own) = self.versions.current().manifest.erasure_key()? {
            return Ok(own);
        }
        self.versions.publish(|manifest| {
            manifest.erasure_key = Some(key.to_string());
            Ok(())
        })?;
        Ok(key)
    }

    /// Writes and publishes tombstones. Marks the segments with rows that they hide, and the segments that
    /// came after `searched`. The caller holds `running`.
    fn publish_tombstones(
        &self,
        (table, version): (&TableVersion, &StoreVersion),
        searched: &TableVersion,
        key: ErasureKey,
        tombstones: TombstoneSet,
        has_some: impl Fn(&SegmentInfo) -> bool,
    ) -> Result<()> {
        self.versions.add_segments(
            |names| self.write_added(names, (table, version), tombstones),
            |added| {
                self.writes.sync_upserts()?;
                self.versions.publish(|manifest| {
                    manifest.erasure_key = Some(key.to_string());
                    added.enter(manifest.table_mut(table.row_rules.table)?, searched, has_some);
                    Ok(())
                })
            },
        )
    }

    /// Waits until no erasure runs; none begins while the guard is held.
    ///
    /// # Errors
    /// `Cancelled`.
    pub(crate) fn pause(&self, call: &Call) -> Result<RankedGuard<'_, ()>> {
        self.running.lock_while(|| call.check())
    }

    /// Writes tombstones that a table gets in addition to its own. The caller holds `running`.
    pub(crate) fn write_added(
        &self,
        names: &FileNames<'_>,
        (table, version): (&TableVersion, &StoreVersion),
        mut tombstones: TombstoneSet,
    ) -> Result<AddedTombstones> {
        let id = table.row_rules.table;
        // Only erasures and changes of names change the list of files.
        let files = version.manifest.tombstone_files(id);
        let (newest, mut kept) = (tombstones.newest(), files.to_vec());
        if newest.is_some() {
            kept = files_that_stay(table, files, &mut tombstones).to_vec();
            kept.extend(self.write_new(names, id, &tombstones)?);
        }
        Ok(AddedTombstones { files: kept, newest })
    }

    /// Writes tombstones as a file of a table, or of a name without a table; `None` if there are none.
    pub(crate) fn write_new(
        &self,
        names: &FileNames<'_>,
        owner: Identity,
        tombstones: &TombstoneSet,
    ) -> Result<Option<TombstoneFile>> {
        if tombstones.len() == 0 {
            return Ok(None);
        }
        let owner = self.versions.current().manifest.tombstone_owner(owner);
        let folder = self.versions.segments();
        let path = folder.join(names.take_for("era"));
        let written = write(&*self.versions.disk, &path, owner, tombstones)?;
        self.versions.disk.sync_dir(&folder).map_err(|e| io_error("sync", &folder, e))?;
        Ok(Some(written))
    }
}

/// The tombstone files of a table once it has got more tombstones.
pub(crate) struct AddedTombstones {
    files: Vec<TombstoneFile>,
    /// The latest date of the new tombstones; `None` if there are none.
    newest: Option<SeenAt>,
}

impl AddedTombstones {
    /// Enters the files. Marks the segments with erased rows, and the segments that came after `searched`.
    pub(crate) fn enter(
        self,
        entry: &mut TableEntry,
        searched: &TableVersion,
        has_some: impl Fn(&SegmentInfo) -> bool,
    ) {
        if self.newest.is_none() {
            return;
        }
        entry.tombstones = self.files;
        let now = now().millis();
        let known: HashSet<&str> = searched.segment_files().collect();
        for segment in &mut entry.segments {
            if has_some(segment) || !known.contains(segment.file.as_str()) {
                segment.erased_since.get_or_insert(now);
            }
        }
    }

    /// Enters the files where it is unknown which segments have erased rows. All segments with old enough
    /// rows are marked.
    pub(crate) fn enter_unsearched(self, entry: &mut TableEntry, table: &TableVersion) {
        let newest = self.newest;
        self.enter(entry, table, |segment| Some(segment.oldest) <= newest);
    }
}

/// Adds the tombstones of older files to new ones, unless a file is much larger. Returns the files that stay.
fn files_that_stay<'f>(
    table: &TableVersion,
    files: &'f [TombstoneFile],
    tombstones: &mut TombstoneSet,
) -> &'f [TombstoneFile] {
    let mut stay = files.len();
    for (file, older) in files.iter().zip(table.row_rules.tombstones.sets()).rev() {
        if file.count >= tombstones.len() * GROWTH {
            break;
        }
        tombstones.add_all(older);
        stay -= 1;
    }
    files.get(..stay).unwrap_or(files)
}
