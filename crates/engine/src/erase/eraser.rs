//! The eraser: tombstones are published like a load, in one change of the manifest.
//!
//! New tombstones are a file that the manifest names. Rows stay in their segments, which are marked, until
//! these are rewritten; memtables are read through the tombstones anyway.

use super::search::find;
use crate::disk::io_error;
use crate::erasures::{ErasureFile, Layer, write};
use crate::segment::SegmentInfo;
use crate::sync::{Rank, RankedMutex};
use crate::versions::{FileNames, TableEntry, TableVersion, Version, VersionSet};
use crate::write::WritePath;
use crate::writer_lock::WriterLock;
use idmatch_model::{ErasureKey, SeenAt, TableName, Target, Window};
use idmatch_store::{Erased, Erasures, Error, ErrorKind, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// A new file takes the ones before it in, unless they have so many times its erasures: files stay few,
/// and an erasure is rewritten a few times in its life.
const GROWTH: u64 = 4;

/// Erases from the tables of a store, one erasure at a time.
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

    /// Hides what there is of the targets up to a date, and what arrives later, in both directions.
    pub(crate) fn erase(&self, name: &TableName, targets: &[Target], at: SeenAt) -> Result<Erased> {
        let _running = self.running.lock();
        let _guard = self.lock.acquire()?;
        let version = self.versions.current();
        let table = self.versions.table_of(&version, name)?;
        if targets.is_empty() {
            return Ok(Erased::default());
        }
        let found = find(
            table,
            self.versions.last_commit(),
            targets,
            at,
            table.visible_window(Window::ALL),
        )?;
        let key = match version.manifest.erasure_key()? {
            Some(key) => key,
            None => new_key()?,
        };
        let mut layer = Layer::default();
        targets.iter().for_each(|target| layer.add(key.of(target), at));
        self.publish_tombstones((name, &version), key, layer, |segment| {
            found.files.contains(&segment.file)
        })?;
        Ok(found.erased)
    }

    /// Takes over erasures that are hashed with the key of this store. Whether a segment has rows of
    /// theirs cannot be known without reading it, so all that are old enough are marked.
    pub(crate) fn add_tombstones(&self, name: &TableName, theirs: &Erasures) -> Result<()> {
        let _running = self.running.lock();
        let _guard = self.lock.acquire()?;
        let version = self.versions.current();
        let table = self.versions.table_of(&version, name)?;
        let own = version.manifest.erasure_key()?;
        theirs.check_key(own, name)?;
        let mut layer = Layer::default();
        for (hash, at) in &theirs.hashes {
            if table.rules.erasures.hidden(*hash) < Some(*at) {
                layer.add(*hash, *at);
            }
        }
        let Some((key, newest)) = own.zip(layer.newest()) else { return Ok(()) };
        self.publish_tombstones((name, &version), key, layer, |segment| segment.oldest <= newest)
    }

    /// Has a store that has no key yet use this one; returns the one it uses.
    pub(crate) fn adopt_key(&self, key: ErasureKey) -> Result<ErasureKey> {
        let _running = self.running.lock();
        let _guard = self.lock.acquire()?;
        if let Some(own) = self.versions.current().manifest.erasure_key()? {
            return Ok(own);
        }
        self.versions.publish(|manifest| {
            manifest.erasure_key = Some(key.to_string());
            Ok(())
        })?;
        Ok(key)
    }

    /// Writes some erasures and publishes them, and marks the segments that have rows of theirs. Only while
    /// `running` is held.
    fn publish_tombstones(
        &self,
        (name, version): (&TableName, &Version),
        key: ErasureKey,
        mut layer: Layer,
        has_some: impl Fn(&SegmentInfo) -> bool,
    ) -> Result<()> {
        let table = self.versions.table_of(version, name)?;
        // Only erasing changes the list of files.
        let (kept, replaced) = split(table, version.manifest.erasures(name), &mut layer);
        let kept = kept.to_vec();
        self.versions.add_segments(
            |names| self.write_layer(names, &layer),
            |file| {
                self.writes.sync_upserts()?;
                self.versions.publish(|manifest| {
                    manifest.erasure_key = Some(key.to_string());
                    if let Some(entry) = manifest.tables.get_mut(name) {
                        entry.erasures = kept;
                        entry.erasures.push(file);
                        mark(entry, table, has_some);
                    }
                    Ok(())
                })
            },
        )?;
        let _unpinned = self.versions.wait_for_unpinned_files();
        self.versions
            .remove_files(replaced.iter().map(|file| self.versions.segments().join(&file.file)));
        Ok(())
    }

    fn write_layer(&self, names: &FileNames<'_>, layer: &Layer) -> Result<ErasureFile> {
        let folder = self.versions.segments();
        let written = write(&*self.versions.disk, &folder.join(names.take_for("era")), layer)?;
        self.versions.disk.sync_dir(&folder).map_err(|e| io_error("sync", &folder, e))?;
        Ok(written)
    }
}

/// Marks the segments that have something of what was erased, and those that came after the search.
fn mark(entry: &mut TableEntry, searched: &TableVersion, has_some: impl Fn(&SegmentInfo) -> bool) {
    let known: HashSet<String> = searched.all_segments().filter_map(|s| s.file_name()).collect();
    for segment in &mut entry.segments {
        segment.erased |= has_some(segment) || !known.contains(&segment.file);
    }
}

/// Adds to a new layer what the files have that are not much larger. Returns the files that stay,
/// and those that it replaces.
fn split<'f>(
    table: &TableVersion,
    files: &'f [ErasureFile],
    layer: &mut Layer,
) -> (&'f [ErasureFile], &'f [ErasureFile]) {
    let mut stay = files.len();
    for (file, older) in files.iter().zip(table.rules.erasures.layers()).rev() {
        if file.count >= layer.len() * GROWTH {
            break;
        }
        layer.add_all(older);
        stay -= 1;
    }
    files.split_at_checked(stay).unwrap_or((files, &[]))
}

fn new_key() -> Result<ErasureKey> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|e| {
        Error::with_source(ErrorKind::Io, "the system gives no random bytes for a key", e)
    })?;
    Ok(ErasureKey::new(random))
}
