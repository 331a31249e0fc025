//! A table of a version: its open segments and memtables, and its files. Decides whether a segment needs checks
//! for tombstones (`tombstones_in`). Must not know how versions change.

use super::Manifest;
use super::stored_file::{Reaper, StoredFile};
use super::table_entry::TableEntry;
use crate::disk::Disk;
use crate::encoding::Packed;
use crate::hash_partition::HashPartition;
use crate::memtable::{Commit, Memtable};
use crate::segment::Segment;
use crate::tombstones::{KeyTombstones, RowRules, Tombstones};
use idmatch_model::{SeenAt, Side, TableName, TableOptions, Window};
use idmatch_store::Result;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// A table of a version.
pub(crate) struct TableVersion {
    pub(crate) options: TableOptions,
    pub(crate) row_rules: RowRules,
    /// Its entry in the manifest.
    entry: Arc<TableEntry>,
    by_id: Arc<DirectionSegments>,
    by_partner_id: Arc<DirectionSegments>,
    /// Oldest first.
    memtables: Vec<Arc<Memtable>>,
    /// Its files, by name: they stay as long as this version.
    files: Arc<BTreeMap<String, Arc<StoredFile>>>,
}

/// The segments whose keys are of one side.
struct DirectionSegments {
    all: Vec<Arc<Segment>>,
    /// The segments that each hash partition overlaps, so that readers need not look through all.
    by_partition: Vec<Vec<Arc<Segment>>>,
    /// The most segments that have the same range.
    most_of_range: usize,
}

impl DirectionSegments {
    fn new(all: Vec<Arc<Segment>>) -> DirectionSegments {
        let mut by_partition = vec![Vec::new(); HashPartition::COUNT];
        let mut of_ranges: HashMap<_, usize> = HashMap::new();
        for segment in &all {
            *of_ranges.entry(segment.header.range()).or_default() += 1;
            let (first, last) = segment.header.partitions().into_inner();
            let overlapped = by_partition.get_mut(usize::from(first)..=usize::from(last));
            overlapped.into_iter().flatten().for_each(|there| there.push(Arc::clone(segment)));
        }
        let most_of_range = of_ranges.into_values().max().unwrap_or(0);
        DirectionSegments { all, by_partition, most_of_range }
    }
}

/// Open segments by the names of their files.
pub(crate) type OpenSegments = HashMap<String, Arc<Segment>>;

/// Where the files of a store are.
pub(crate) struct OpenPlace<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) folder: &'a Path,
    pub(crate) reaper: &'a Arc<Reaper>,
}

impl TableVersion {
    /// Opens a table of a manifest. Shares everything that `before`, the same table, has open, and files that
    /// `stored` returns. Newly opened segments are added to `opened`, even if a later one fails. Memtables
    /// are left out.
    pub(super) fn open(
        place: &OpenPlace<'_>,
        manifest: &Manifest,
        entry: &Arc<TableEntry>,
        before: Option<&TableVersion>,
        opened: &mut OpenSegments,
        stored: impl Fn(&str) -> Option<Arc<StoredFile>>,
    ) -> Result<TableVersion> {
        let open: HashMap<&str, &Arc<Segment>> = before
            .into_iter()
            .flat_map(TableVersion::all_segments)
            .filter_map(|segment| Some((segment.file_name()?, segment)))
            .collect();
        let identity = (entry.id, manifest.hash_seed());
        let (mut by_id, mut by_partner_id) = (Vec::new(), Vec::new());
        for info in &entry.segments {
            let there = open.get(info.file.as_str()).copied().or(opened.get(&info.file));
            let mut segment = match there.filter(|there| there.header_sum() == info.header_sum) {
                Some(segment) => Arc::clone(segment),
                None => {
                    let new = Arc::new(Segment::open(place.disk, place.folder, info, identity)?);
                    opened.insert(info.file.clone(), Arc::clone(&new));
                    new
                }
            };
            let retention_watermark = info.retention_watermark.unwrap_or(SeenAt::EPOCH);
            if segment.retention_watermark() != retention_watermark {
                segment = Arc::new(segment.with_watermark(retention_watermark));
            }
            if info.erased_since.is_some() {
                segment.mark_erased();
            }
            match info.side {
                Side::Id => by_id.push(segment),
                Side::PartnerId => by_partner_id.push(segment),
            }
        }
        let mut files = BTreeMap::new();
        let table_file = manifest.table_file(entry.id);
        for file in entry.files().map(|(file, _)| file).chain(table_file) {
            let there = before.and_then(|table| table.file(file)).or_else(|| stored(file));
            let new = || StoredFile::new(place.folder.join(file), place.reaper);
            files.insert(file.to_owned(), there.unwrap_or_else(new));
        }
        Ok(TableVersion {
            options: entry.options.table_options(),
            row_rules: RowRules {
                tombstones: open_tombstones(place, manifest, entry, before)?,
                ..RowRules::new(identity.0, identity.1, entry.options.keep)
            },
            entry: entry.clone(),
            by_id: Arc::new(DirectionSegments::new(by_id)),
            by_partner_id: Arc::new(DirectionSegments::new(by_partner_id)),
            memtables: Vec::new(),
            files: Arc::new(files),
        })
    }

    /// Whether this is the table of that entry.
    pub(super) fn is_of(&self, entry: &Arc<TableEntry>) -> bool {
        Arc::ptr_eq(&self.entry, entry)
    }

    /// The same table with other memtables; itself if they are the same.
    pub(super) fn with_memtables(self: &Arc<Self>, memtables: Vec<Arc<Memtable>>) -> Arc<Self> {
        let is_same = self.memtables.len() == memtables.len()
            && self.memtables.iter().zip(&memtables).all(|(a, b)| Arc::ptr_eq(a, b));
        if is_same {
            return self.clone();
        }
        Arc::new(TableVersion {
            options: self.options.clone(),
            row_rules: self.row_rules.clone(),
            entry: self.entry.clone(),
            by_id: self.by_id.clone(),
            by_partner_id: self.by_partner_id.clone(),
            memtables,
            files: self.files.clone(),
        })
    }

    /// Marks the files that are no longer needed: the published manifest does not name them any more.
    pub(super) fn mark_obsolete_files(&self, is_needed: impl Fn(&str) -> bool) {
        let gone = self.files.iter().filter(|(name, _)| !is_needed(name));
        gone.for_each(|(_, file)| file.mark_obsolete());
    }

    /// The file of this name, if it is one of the table's.
    pub(super) fn file(&self, name: &str) -> Option<Arc<StoredFile>> {
        self.files.get(name).cloned()
    }

    /// The table's name when the version was published.
    pub(crate) fn name(&self) -> &TableName {
        &self.entry.name
    }

    /// Its entry in the manifest.
    pub(crate) fn entry(&self) -> &TableEntry {
        &self.entry
    }

    /// The segments whose keys are of this side.
    pub(crate) fn segments(&self, side: Side) -> &[Arc<Segment>] {
        &self.direction(side).all
    }

    /// The segments of this side that a hash partition overlaps.
    pub(crate) fn segments_of(&self, side: Side, partition: HashPartition) -> &[Arc<Segment>] {
        self.direction(side).by_partition.get(usize::from(partition.0)).map_or(&[], Vec::as_slice)
    }

    /// The most segments of this side that have the same range.
    pub(crate) fn most_of_range(&self, side: Side) -> usize {
        self.direction(side).most_of_range
    }

    /// The segments of both directions.
    pub(crate) fn all_segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.by_id.all.iter().chain(&self.by_partner_id.all)
    }

    /// The names of the segments' files.
    pub(crate) fn segment_files(&self) -> impl Iterator<Item = &str> {
        self.all_segments().filter_map(|segment| segment.file_name())
    }

    /// The memtables of the table.
    pub(crate) fn memtables(&self) -> &[Arc<Memtable>] {
        &self.memtables
    }

    /// Every segment that may have rows of the keys of a partition with some hashes, which come sorted.
    /// Memtable rows up to a commit become further segments.
    pub(crate) fn sources_of(
        &self,
        side: Side,
        partition: HashPartition,
        hashes: impl Iterator<Item = u64> + Clone,
        last: Commit,
    ) -> Result<Vec<Arc<Segment>>> {
        let mut sources = self.segments_of(side, partition).to_vec();
        for memtable in &self.memtables {
            let rows =
                memtable.rows_of(side, partition, hashes.clone(), (&self.row_rules, last))?;
            sources.extend(rows.map(Arc::new));
        }
        Ok(sources)
    }

    /// Every segment that may have rows of a partition, as [`TableVersion::sources_of`] for all its keys.
    pub(crate) fn sources_in(
        &self,
        side: Side,
        partition: HashPartition,
        last: Commit,
    ) -> Result<Vec<Arc<Segment>>> {
        let mut sources = self.segments_of(side, partition).to_vec();
        for memtable in &self.memtables {
            let rows = memtable.rows_in(side, partition, (&self.row_rules, last))?;
            sources.extend(rows.map(Arc::new));
        }
        Ok(sources)
    }

    /// The tombstones for the rows of a key in a segment; `None` if no row was erased.
    pub(crate) fn tombstones_in(
        &self,
        segment: &Segment,
        side: Side,
        key: Packed<'_>,
    ) -> Option<Arc<KeyTombstones>> {
        let may_be = segment.has_hidden();
        may_be.then(|| self.row_rules.tombstones.of_key(side, key).map(Arc::new)).flatten()
    }

    /// The part of a window that the table's retention leaves at a time.
    pub(crate) fn visible_window(&self, window: Window, at: SeenAt) -> Window {
        match &self.options.retention {
            Some(retention) => window.within_retention(Some(retention), at),
            None => window,
        }
    }

    fn direction(&self, side: Side) -> &DirectionSegments {
        match side {
            Side::Id => &self.by_id,
            Side::PartnerId => &self.by_partner_id,
        }
    }
}

/// The tombstones of a table. Files that `before` has open are shared.
fn open_tombstones(
    place: &OpenPlace<'_>,
    manifest: &Manifest,
    entry: &TableEntry,
    before: Option<&TableVersion>,
) -> Result<Arc<Tombstones>> {
    let key = manifest.erasure_key()?;
    let (wanted, had) = (&entry.tombstones, before.map_or(&[][..], |t| &t.entry.tombstones));
    let open = before.map(|table| &table.row_rules.tombstones);
    if let Some(open) = open.filter(|open| wanted == had && open.key() == key) {
        return Ok(Arc::clone(open));
    }
    let mut tombstone_sets = Vec::new();
    for file in wanted {
        let number = had.iter().position(|other| other == file);
        let set = number.and_then(|number| open?.sets().get(number).cloned());
        tombstone_sets.push(match set {
            Some(set) => set,
            None => {
                let owner = manifest.tombstone_owner(entry.id);
                Arc::new(file.read(place.disk, place.folder, owner)?)
            }
        });
    }
    Ok(Arc::new(Tombstones::new(key, tombstone_sets)))
}
