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

/// A version, which readers hold while they read. Its files stay until then.
#[derive(Default)]
pub(crate) struct StoreVersion {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) tables: BTreeMap<Identity, Arc<TableVersion>>,
    pub(crate) names: Arc<BTreeMap<TableName, Identity>>,
    /// Oldest first.
    pub(crate) memtables: Vec<MemtableSet>,
    /// The files that are of no table, by name: they stay as long as this version.
    files: Arc<BTreeMap<String, Arc<StoredFile>>>,
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

impl StoreVersion {
    /// The version of a manifest that names no table.
    pub(crate) fn without_tables(manifest: Arc<Manifest>) -> StoreVersion {
        StoreVersion { manifest, ..StoreVersion::default() }
    }

    /// Opens the tables of a manifest. Tables that did not change are shared with `before`, whose memtables
    /// stay. Newly opened segments are added to `opened`, even if a later one fails.
    pub(crate) fn open(
        place: &OpenPlace<'_>,
        manifest: Manifest,
        before: &StoreVersion,
        opened: &mut OpenSegments,
    ) -> Result<StoreVersion> {
        let mut tables = BTreeMap::new();
        let is_same_store = (manifest.seed, &manifest.erasure_key)
            == (before.manifest.seed, &before.manifest.erasure_key);
        for (id, entry) in &manifest.tables {
            let there = before.tables.get(id);
            let table = match there.filter(|table| table.is_of(entry) && is_same_store) {
                Some(table) => table.clone(),
                None => {
                    let (there, stored) =
                        (there.map(AsRef::as_ref), |file: &str| before.file(file));
                    Arc::new(TableVersion::open(place, &manifest, entry, there, opened, stored)?)
                }
            };
            tables.insert(*id, table);
        }
        let files = manifest.store_files().map(|(file, _)| {
            let new = || StoredFile::new(place.folder.join(file), place.reaper);
            (file.to_owned(), before.file_of_any(file).unwrap_or_else(new))
        });
        let files = Arc::new(files.collect());
        let names = manifest.tables.iter().map(|(id, entry)| (entry.name.clone(), *id)).collect();
        let (manifest, memtables) = (Arc::new(manifest), Vec::new());
        let version = StoreVersion { manifest, tables, names: Arc::new(names), memtables, files };
        Ok(version.with_memtables(before.memtables.clone()))
    }

    /// The same version with other memtables. Cost: a little for each table.
    pub(crate) fn with_memtables(&self, sets: Vec<MemtableSet>) -> StoreVersion {
        let tables = self.tables.iter().map(|(id, table)| {
            let memtables = sets.iter().filter_map(|set| set.tables.get(id).cloned());
            (*id, table.with_memtables(memtables.collect()))
        });
        StoreVersion {
            tables: tables.collect(),
            manifest: self.manifest.clone(),
            names: self.names.clone(),
            memtables: sets.clone(),
            files: self.files.clone(),
        }
    }

    /// Marks as obsolete the files that `after`, the published version, no longer has.
    pub(super) fn mark_obsolete_files(&self, after: &StoreVersion) {
        for (id, table) in &self.tables {
            let now = after.tables.get(id);
            if now.is_none_or(|now| !Arc::ptr_eq(now, table)) {
                table.mark_obsolete_files(|file| {
                    now.is_some_and(|now| now.file(file).is_some()) || after.file(file).is_some()
                });
            }
        }
        let gone = self.files.iter().filter(|(name, _)| after.file_of_any(name).is_none());
        gone.for_each(|(_, file)| file.mark_obsolete());
        let is_needed =
            |set: &&MemtableSet| after.memtables.iter().any(|s| s.journal == set.journal);
        let gone = self.memtables.iter().filter(|set| !is_needed(set));
        gone.for_each(|set| set.file.mark_obsolete());
    }

    /// The table that has this name.
    pub(crate) fn named(&self, name: &TableName) -> Option<&Arc<TableVersion>> {
        self.tables.get(self.names.get(name)?)
    }

    /// A file that is of no table.
    fn file(&self, name: &str) -> Option<Arc<StoredFile>> {
        self.files.get(name).cloned()
    }

    /// A file of no table, or of any table. Cost: a little for each table.
    fn file_of_any(&self, name: &str) -> Option<Arc<StoredFile>> {
        self.file(name).or_else(|| self.tables.values().find_map(|table| table.file(name)))
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

#[cfg(test)]
mod tests {
    use crate::disk::OsDisk;
    use crate::identity::{Hex64, Identity};
    use crate::options::MemoryLimits;
    use crate::versions::dropped::DroppedTable;
    use crate::versions::manifest::HistoryFile;
    use crate::versions::table_entry::DeletesFile;
    use crate::versions::{FileNames, Manifest, VersionSet};
    use crate::writer_lock::WriterLock;
    use idmatch_model::{TableName, TableOptions};
    use std::path::Path;
    use std::sync::Arc;

    /// A table with a file of delete marks; returns the name of that file.
    fn add_table(versions: &VersionSet, table: &TableName) -> String {
        let file = new_file(versions, "era");
        let id = Identity::random().unwrap();
        let deletes = DeletesFile { file: file.clone(), load: 1, sum: Hex64(0) };
        let add = |manifest: &mut Manifest| {
            manifest.make_table(table, id, &TableOptions::default())?;
            manifest.table_mut(id)?.deletes.push(deletes);
            Ok(())
        };
        versions.publish(add).unwrap();
        file
    }

    fn new_file(versions: &VersionSet, ending: &str) -> String {
        let file = FileNames::new(&versions.next_file).take_for(ending);
        versions.disk.create(&versions.segments().join(&file)).unwrap();
        file
    }

    fn rename(manifest: &mut Manifest, from: &TableName, to: &TableName) {
        let id = manifest.named(from).unwrap().id;
        manifest.table_mut(id).unwrap().name = to.clone();
    }

    fn opened(root: &Path) -> (Arc<VersionSet>, WriterLock) {
        let versions = VersionSet::unopened(Arc::new(OsDisk), root, MemoryLimits::default());
        let versions = Arc::new(versions);
        let lock = WriterLock::new(versions.clone());
        (versions, lock)
    }

    #[test]
    fn files_stay_when_tables_change_names_and_go_when_nothing_names_them() {
        let dir = tempfile::tempdir().unwrap();
        let (versions, lock) = opened(dir.path());
        let _guard = lock.acquire().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| name.parse::<TableName>().unwrap());
        let (first, second) = (add_table(&versions, &a), add_table(&versions, &b));
        let is_there = |file: &str| versions.segments().join(file).exists();
        let publish = |change: &dyn Fn(&mut Manifest)| {
            let done = versions.publish(|manifest| {
                change(manifest);
                Ok(())
            });
            done.unwrap();
        };

        publish(&|manifest| rename(manifest, &a, &c));
        assert!(is_there(&first) && is_there(&second), "renamed");
        publish(&|manifest| {
            rename(manifest, &b, &a);
            rename(manifest, &c, &b);
        });
        assert!(is_there(&first) && is_there(&second), "swapped");

        // The second table is now called "a".
        publish(&|manifest| {
            let id = manifest.named(&a).unwrap().id;
            let entry = manifest.tables.remove(&id).unwrap();
            let file = manifest.table_files.get(&entry.id).unwrap().clone();
            manifest.dropped.push(DroppedTable {
                id: entry.id,
                name: file.name,
                file: file.file,
                bytes: file.bytes,
                sum: file.sum,
                generation: manifest.generation,
                journal: None,
                at: 0,
                until: u64::MAX,
                entry: Some(entry),
            });
        });
        let table_file = versions.current().manifest.dropped[0].file.clone();
        assert!(is_there(&second) && is_there(&table_file), "dropped");
        let (_, next_lock) = opened(dir.path());
        drop(_guard);
        drop(next_lock.acquire().unwrap());
        assert!(is_there(&second) && is_there(&table_file), "no orphans");
        let _guard = lock.acquire().unwrap();
        publish(&|manifest| manifest.dropped.clear());
        assert!(!is_there(&second) && !is_there(&table_file), "removed for good");

        let history = new_file(&versions, "his");
        let entry =
            HistoryFile { file: history.clone(), first: 1, last: 2, bytes: 0, sum: Hex64(0) };
        publish(&|manifest| manifest.history.push(entry.clone()));
        publish(&|manifest| manifest.commit += 1);
        assert!(is_there(&history));
        publish(&|manifest| manifest.history.clear());
        assert!(!is_there(&history) && is_there(&first));
    }
}
