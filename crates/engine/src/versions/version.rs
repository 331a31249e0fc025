//! An immutable version of a store: the segments that one manifest names, open, and the memtables with
//! the rows that were upserted since. Must not know how versions change.

use super::Manifest;
use crate::disk::Disk;
use crate::encoding::Packed;
use crate::hash_partition::HashPartition;
use crate::memtable::{Commit, Memtable};
use crate::segment::Segment;
use crate::tombstones::{KeyTombstones, RowFilter, Tombstones};
use idmatch_model::{SeenAt, Side, TableName, TableOptions, Window};
use idmatch_store::{Result, now};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// What readers read, for as long as they hold it.
#[derive(Default)]
pub(crate) struct Version {
    pub(crate) manifest: Manifest,
    pub(crate) tables: BTreeMap<TableName, Arc<TableVersion>>,
    /// Oldest first.
    pub(crate) memtables: Vec<MemtableSet>,
}

/// Open segments by the names of their files.
pub(crate) type OpenSegments = HashMap<String, Arc<Segment>>;

/// The memtables with the rows of one journal file.
#[derive(Clone)]
pub(crate) struct MemtableSet {
    pub(crate) journal: u64,
    pub(crate) tables: BTreeMap<TableName, Arc<Memtable>>,
}

impl MemtableSet {
    /// About how much memory the memtables take.
    pub(crate) fn bytes(&self) -> usize {
        self.tables.values().map(|memtable| memtable.bytes()).sum()
    }
}

/// A table of a version.
pub(crate) struct TableVersion {
    pub(crate) options: TableOptions,
    pub(crate) row_filter: RowFilter,
    by_id: Arc<Direction>,
    by_partner_id: Arc<Direction>,
    /// Oldest first.
    memtables: Vec<Arc<Memtable>>,
}

/// The segments whose keys are of one side.
struct Direction {
    all: Vec<Arc<Segment>>,
    /// The segments that each hash partition overlaps, so that readers need not look through all.
    by_partition: Vec<Vec<Arc<Segment>>>,
}

impl Direction {
    fn new(all: Vec<Arc<Segment>>) -> Direction {
        let of_partition =
            |partition| all.iter().filter(move |s| s.header.overlaps(partition)).cloned().collect();
        let by_partition = HashPartition::all().map(of_partition).collect();
        Direction { all, by_partition }
    }
}

impl Version {
    /// The segments that are open, by the names of their files.
    pub(crate) fn opened(&self) -> OpenSegments {
        self.tables
            .values()
            .flat_map(|table| table.by_id.all.iter().chain(&table.by_partner_id.all))
            .filter_map(|segment| Some((segment.file_name()?, Arc::clone(segment))))
            .collect()
    }

    /// Opens what a manifest names. Open segments are shared. Newly opened ones are added to `opened`, also
    /// if a later one fails. Memtables stay as they are in `before`.
    pub(crate) fn open(
        disk: &dyn Disk,
        folder: &Path,
        manifest: Manifest,
        before: &Version,
        opened: &mut OpenSegments,
    ) -> Result<Version> {
        let mut tables = BTreeMap::new();
        for (name, entry) in &manifest.tables {
            let tombstones = open_tombstones(disk, folder, &manifest, name, before)?;
            let (mut by_id, mut by_partner_id) = (Vec::new(), Vec::new());
            for info in &entry.segments {
                let mut segment = match opened.get(&info.file) {
                    Some(segment) => Arc::clone(segment),
                    None => Arc::new(Segment::open(disk, folder, info)?),
                };
                let retention_watermark = info.retention_watermark.unwrap_or(SeenAt::EPOCH);
                if segment.retention_watermark() != retention_watermark {
                    segment = Arc::new(segment.with_watermark(retention_watermark));
                }
                opened.insert(info.file.clone(), Arc::clone(&segment));
                if info.erased {
                    segment.mark_erased();
                }
                match info.side {
                    Side::Id => by_id.push(segment),
                    Side::PartnerId => by_partner_id.push(segment),
                }
            }
            let table = TableVersion {
                options: entry.options.clone(),
                row_filter: RowFilter { keep: entry.options.keep, tombstones },
                by_id: Arc::new(Direction::new(by_id)),
                by_partner_id: Arc::new(Direction::new(by_partner_id)),
                memtables: Vec::new(),
            };
            tables.insert(name.clone(), Arc::new(table));
        }
        Ok(Version { manifest, tables, memtables: Vec::new() }
            .with_memtables(before.memtables.clone()))
    }

    /// The same with other memtables.
    pub(crate) fn with_memtables(&self, sets: Vec<MemtableSet>) -> Version {
        let of_table = |name: &TableName| -> Vec<Arc<Memtable>> {
            sets.iter().filter_map(|set| set.tables.get(name).cloned()).collect()
        };
        let tables = self.tables.iter().map(|(name, table)| {
            (
                name.clone(),
                Arc::new(TableVersion { memtables: of_table(name), ..table.without_memtables() }),
            )
        });
        Version {
            manifest: self.manifest.clone(),
            tables: tables.collect(),
            memtables: sets.clone(),
        }
    }

    /// About how much memory all memtables take.
    pub(crate) fn memtable_bytes(&self) -> usize {
        self.memtables.iter().map(MemtableSet::bytes).sum()
    }

    /// The memtable of a table in the newest set.
    pub(crate) fn newest_memtable(&self, table: &str) -> Option<&Arc<Memtable>> {
        let (_, memtable) =
            self.memtables.last()?.tables.iter().find(|(name, _)| name.as_str() == table)?;
        Some(memtable)
    }
}

impl TableVersion {
    /// The segments whose keys are of this side.
    pub(crate) fn segments(&self, side: Side) -> &[Arc<Segment>] {
        &self.direction(side).all
    }

    /// Those of them that a hash partition overlaps.
    pub(crate) fn segments_of(&self, side: Side, partition: HashPartition) -> &[Arc<Segment>] {
        self.direction(side).by_partition.get(usize::from(partition.0)).map_or(&[], Vec::as_slice)
    }

    /// The segments of both directions.
    pub(crate) fn all_segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.by_id.all.iter().chain(&self.by_partner_id.all)
    }

    /// The memtables of the table.
    pub(crate) fn memtables(&self) -> &[Arc<Memtable>] {
        &self.memtables
    }

    /// Every segment that may have rows of some keys of a partition, each given with its hash. Memtable rows
    /// up to a commit are made into further ones.
    pub(crate) fn sources_of<'k>(
        &self,
        side: Side,
        partition: HashPartition,
        keys: impl Iterator<Item = (u64, Packed<'k>)> + Clone,
        last: Commit,
    ) -> Result<Vec<Arc<Segment>>> {
        let mut sources = self.segments_of(side, partition).to_vec();
        for memtable in &self.memtables {
            let rows = memtable.rows_of(side, partition, keys.clone(), (&self.row_filter, last))?;
            sources.extend(rows.map(Arc::new));
        }
        Ok(sources)
    }

    /// The same for all keys of a partition.
    pub(crate) fn sources_in(
        &self,
        side: Side,
        partition: HashPartition,
        last: Commit,
    ) -> Result<Vec<Arc<Segment>>> {
        let mut sources = self.segments_of(side, partition).to_vec();
        for memtable in &self.memtables {
            let rows = memtable.rows_in(side, partition, (&self.row_filter, last))?;
            sources.extend(rows.map(Arc::new));
        }
        Ok(sources)
    }

    /// The tombstones for the rows of a key in a segment; `None` if none of them was erased.
    pub(crate) fn tombstones_in(
        &self,
        segment: &Segment,
        side: Side,
        key: Packed<'_>,
    ) -> Option<Arc<KeyTombstones>> {
        let may_be = segment.has_hidden();
        may_be.then(|| self.row_filter.tombstones.of_key(side, key).map(Arc::new)).flatten()
    }

    /// The part of a window that the table's retention leaves.
    pub(crate) fn visible_window(&self, window: Window) -> Window {
        match &self.options.retention {
            Some(retention) => window.within_retention(Some(retention), now()),
            None => window,
        }
    }

    fn direction(&self, side: Side) -> &Direction {
        match side {
            Side::Id => &self.by_id,
            Side::PartnerId => &self.by_partner_id,
        }
    }

    /// The same segments, without memtables.
    fn without_memtables(&self) -> TableVersion {
        TableVersion {
            options: self.options.clone(),
            row_filter: self.row_filter.clone(),
            by_id: self.by_id.clone(),
            by_partner_id: self.by_partner_id.clone(),
            memtables: Vec::new(),
        }
    }
}

/// The tombstones of a table. Files that `before` has open are shared.
fn open_tombstones(
    disk: &dyn Disk,
    folder: &Path,
    manifest: &Manifest,
    name: &TableName,
    before: &Version,
) -> Result<Arc<Tombstones>> {
    let files = |manifest: &Manifest| {
        manifest.tables.get(name).map(|entry| entry.tombstones.clone()).unwrap_or_default()
    };
    let (wanted, had) = (files(manifest), files(&before.manifest));
    let open = before.tables.get(name).map(|table| &table.row_filter.tombstones);
    if let Some(open) = open.filter(|_| wanted == had) {
        return Ok(Arc::clone(open));
    }
    let mut tombstone_sets = Vec::new();
    for file in &wanted {
        let number = had.iter().position(|other| other == file);
        let set = number.and_then(|number| open?.sets().get(number).cloned());
        tombstone_sets.push(match set {
            Some(set) => set,
            None => Arc::new(file.read(disk, folder)?),
        });
    }
    Ok(Arc::new(Tombstones::new(manifest.erasure_key()?, tombstone_sets)))
}
