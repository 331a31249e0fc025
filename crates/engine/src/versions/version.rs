//! An immutable version of a store: the tables that one manifest names, open, and the memtables with the rows
//! that were upserted since. Must not know how versions change.

use super::Manifest;
use super::stored_file::StoredFile;
use super::table_version::{OpenPlace, OpenSegments, TableVersion};
use crate::identity::Identity;
use crate::memtable::Memtable;
use idmatch_model::TableName;
use idmatch_store::Result;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What readers read, for as long as they hold it. Its files stay until then.
#[derive(Default)]
pub(crate) struct Version {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) tables: BTreeMap<TableName, Arc<TableVersion>>,
    /// The names of the tables by their identities.
    pub(crate) names: Arc<BTreeMap<Identity, TableName>>,
    /// Oldest first.
    pub(crate) memtables: Vec<MemtableSet>,
}

/// The memtables with the rows of one journal file, by the identity of the table.
#[derive(Clone)]
pub(crate) struct MemtableSet {
    pub(crate) journal: u64,
    /// The identity of the journal file.
    pub(crate) id: Identity,
    pub(crate) file: Arc<StoredFile>,
    pub(crate) tables: BTreeMap<Identity, Arc<Memtable>>,
}

impl MemtableSet {
    /// About how much memory the memtables take.
    pub(crate) fn bytes(&self) -> usize {
        self.tables.values().map(|memtable| memtable.bytes()).sum()
    }
}

impl Version {
    /// Opens what a manifest names. Tables that did not change are shared with `before`, whose memtables stay.
    /// Newly opened segments are added to `opened`, also if a later one fails.
    pub(crate) fn open(
        place: &OpenPlace<'_>,
        manifest: Manifest,
        before: &Version,
        opened: &mut OpenSegments,
    ) -> Result<Version> {
        let mut tables = BTreeMap::new();
        let is_same_store = (manifest.seed, &manifest.erasure_key)
            == (before.manifest.seed, &before.manifest.erasure_key);
        for (name, entry) in &manifest.tables {
            let there = before.tables.get(name);
            let table = match there.filter(|table| table.is_of(entry) && is_same_store) {
                Some(table) => table.clone(),
                None => {
                    let there = there.map(AsRef::as_ref);
                    Arc::new(TableVersion::open(place, &manifest, entry, there, opened)?)
                }
            };
            tables.insert(name.clone(), table);
        }
        let names = manifest.tables.iter().map(|(name, entry)| (entry.id, name.clone())).collect();
        let (manifest, memtables) = (Arc::new(manifest), Vec::new());
        let version = Version { manifest, tables, names: Arc::new(names), memtables };
        Ok(version.with_memtables(before.memtables.clone()))
    }

    /// The same with other memtables. Cost: a little for each table.
    pub(crate) fn with_memtables(&self, sets: Vec<MemtableSet>) -> Version {
        let tables = self.tables.iter().map(|(name, table)| {
            let memtables =
                sets.iter().filter_map(|set| set.tables.get(&table.row_rules.table).cloned());
            (name.clone(), table.with_memtables(memtables.collect()))
        });
        Version {
            tables: tables.collect(),
            manifest: self.manifest.clone(),
            names: self.names.clone(),
            memtables: sets.clone(),
        }
    }

    /// Says which files the published manifest names no more, as `after` shows.
    pub(super) fn mark_obsolete_files(&self, after: &Version) {
        for (name, table) in &self.tables {
            let now = after.tables.get(name);
            if now.is_none_or(|now| !Arc::ptr_eq(now, table)) {
                table.mark_obsolete_files(now.map(AsRef::as_ref));
            }
        }
        let is_needed =
            |set: &&MemtableSet| after.memtables.iter().any(|s| s.journal == set.journal);
        let gone = self.memtables.iter().filter(|set| !is_needed(set));
        gone.for_each(|set| set.file.mark_obsolete());
    }

    /// About how much memory all memtables take.
    pub(crate) fn memtable_bytes(&self) -> usize {
        self.memtables.iter().map(MemtableSet::bytes).sum()
    }

    /// The memtable of a table in the newest set.
    pub(crate) fn newest_memtable(&self, table: &Identity) -> Option<&Arc<Memtable>> {
        self.memtables.last()?.tables.get(table)
    }
}
