//! Erasing: what is hidden is published like a load, in one change of the manifest.
//!
//! The new erasures are a file that the manifest names. Rows that are there stay in their segments,
//! which are marked, until those are written anew; memtables are read through the erasures anyway.

use super::manifest::TableEntry;
use super::shared::Shared;
use super::table::visible;
use super::view::{TableView, View};
use crate::erasures::{ErasureFile, Layer, find, write};
use crate::errors::io_error;
use crate::names::FileNames;
use crate::segment::SegmentInfo;
use crate::workers::lock;
use idmatch_model::{ErasureKey, SeenAt, TableName, Target, Window};
use idmatch_store::{Erased, Erasures, Error, ErrorKind, Result};
use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

/// A new file takes the ones before it in, unless they have so many times its erasures: files stay few,
/// and an erasure is rewritten a few times in its life.
const GROWTH: u64 = 4;

impl Shared {
    /// Hides what there is of the targets up to a date, and what arrives later, in both directions.
    pub(crate) fn erase(&self, name: &TableName, targets: &[Target], at: SeenAt) -> Result<Erased> {
        let _erasing = lock(&self.erasing);
        let _hold = self.hold()?;
        let view = self.view();
        let table = self.table_of(&view, name)?;
        if targets.is_empty() {
            return Ok(Erased::default());
        }
        let found = find(table, self.visible(), targets, at, visible(table, Window::ALL))?;
        let key = match view.manifest.erasure_key()? {
            Some(key) => key,
            None => new_key()?,
        };
        let mut layer = Layer::default();
        targets.iter().for_each(|target| layer.add(key.of(target), at));
        self.publish_erasures((name, &view), key, layer, |segment| {
            found.files.contains(&segment.file)
        })?;
        Ok(found.erased)
    }

    /// Takes over erasures that are hashed with the key of this store. Whether a segment has rows of
    /// theirs cannot be known without reading it, so all that are old enough are marked.
    pub(crate) fn add_erasures(&self, name: &TableName, theirs: &Erasures) -> Result<()> {
        let _erasing = lock(&self.erasing);
        let _hold = self.hold()?;
        let view = self.view();
        let table = self.table_of(&view, name)?;
        let own = view.manifest.erasure_key()?;
        theirs.check_key(own, name)?;
        let mut layer = Layer::default();
        for (hash, at) in &theirs.hashes {
            if table.rules.erasures.hidden(*hash) < Some(*at) {
                layer.add(*hash, *at);
            }
        }
        let Some((key, newest)) = own.zip(layer.newest()) else { return Ok(()) };
        self.publish_erasures((name, &view), key, layer, |segment| segment.oldest <= newest)
    }

    /// Has a store that has no key yet use this one; returns the one it uses.
    pub(crate) fn adopt_erasure_key(&self, key: ErasureKey) -> Result<ErasureKey> {
        let _erasing = lock(&self.erasing);
        let _hold = self.hold()?;
        if let Some(own) = self.view().manifest.erasure_key()? {
            return Ok(own);
        }
        self.publish(|manifest| {
            manifest.erasure_key = Some(key.to_string());
            Ok(())
        })?;
        Ok(key)
    }

    /// Writes some erasures and publishes them, and marks the segments that have rows of theirs. Only while
    /// `erasing` is held.
    fn publish_erasures(
        &self,
        (name, view): (&TableName, &View),
        key: ErasureKey,
        mut layer: Layer,
        has_some: impl Fn(&SegmentInfo) -> bool,
    ) -> Result<()> {
        let table = self.table_of(view, name)?;
        // Only erasing changes the list of files.
        let (kept, replaced) = split(table, view.manifest.erasures(name), &mut layer);
        let kept = kept.to_vec();
        self.add_segments(
            |names| self.write_layer(names, &layer),
            |file| {
                self.sync_upserts()?;
                self.publish(|manifest| {
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
        let _copying = self.copying.write().unwrap_or_else(PoisonError::into_inner);
        self.remove_files(replaced.iter().map(|file| self.segments().join(&file.file)));
        Ok(())
    }

    fn write_layer(&self, names: &FileNames<'_>, layer: &Layer) -> Result<ErasureFile> {
        let folder = self.segments();
        let written = write(&*self.disk, &folder.join(names.take_for("era")), layer)?;
        self.disk.sync_dir(&folder).map_err(|e| io_error("sync", &folder, e))?;
        Ok(written)
    }

    pub(super) fn table_of<'v>(
        &self,
        view: &'v View,
        name: &TableName,
    ) -> Result<&'v Arc<TableView>> {
        view.tables.get(name).ok_or_else(|| {
            let root = self.root().display();
            Error::new(ErrorKind::TableNotFound, format!("{root} has no table {name}"))
        })
    }
}

/// Marks the segments that have something of what was erased, and those that came after the search.
fn mark(entry: &mut TableEntry, searched: &TableView, has_some: impl Fn(&SegmentInfo) -> bool) {
    let known: HashSet<String> = searched.all_segments().filter_map(|s| s.file_name()).collect();
    for segment in &mut entry.segments {
        segment.erased |= has_some(segment) || !known.contains(&segment.file);
    }
}

/// Adds to a new layer what the files have that are not much larger. Returns the files that stay,
/// and those that it replaces.
fn split<'f>(
    table: &TableView,
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
