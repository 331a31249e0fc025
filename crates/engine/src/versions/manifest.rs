//! The manifest: the identity of a store, and its tables.
//!
//! One small file, replaced atomically. It names a file for each table ([`TableFile`]), which names the
//! table's segments. Fields of features that come later are read, checked and written back.

use super::copy_of::{CopyKind, CopyOf};
use super::dropped::DroppedTable;
use super::sealed;
use super::table_entry::{TableEntry, TableFile};
use super::{Clock, JOURNAL, SEGMENTS};
use crate::disk::{Disk, corrupt, create_anew, io_error, read_if_there};
use crate::encoding::HashSeed;
use crate::file_name::file_number;
use crate::identity::{Hex64, Identity};
use crate::journal;
use crate::tombstones::{TombstoneFile, TombstoneOwner};
use idmatch_model::{ErasureKey, ErasureKeyError, Period, SeenAt, TableName};
use idmatch_store::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NAME: &str = "MANIFEST";
const NEW_NAME: &str = "MANIFEST.new";
const KIND: &str = "manifest";

/// A writer may replace table files between the reading of the manifest and of these.
const TRIES: u32 = 100;

/// The content of a store. A generation of 0 was never published.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(crate) store: Identity,
    /// The secret seed of all hashes of identifiers.
    pub(crate) seed: Hex64,
    /// The number of publications so far.
    pub(crate) generation: u64,
    /// Random bits of each publication.
    pub(crate) publication: Hex64,
    /// The last commit before the publication.
    pub(crate) commit: u64,
    pub(crate) clock: Clock,
    /// The number of the next file in the folder of segments.
    pub(crate) next_file: u64,
    pub(crate) journal: JournalEntry,
    /// The secret key of tombstone hashes; made with the first tombstone.
    pub(crate) erasure_key: Option<String>,
    /// The time within which the rows of an erasure are removed from disk.
    pub(crate) erase_within: Option<Period>,
    /// Tombstones of the whole store, and of names without a table.
    pub(crate) erasures: Vec<TombstoneFile>,
    pub(crate) names_erasures: BTreeMap<TableName, Vec<TombstoneFile>>,
    pub(crate) history: Vec<HistoryFile>,
    #[serde(rename = "tables")]
    pub(super) table_files: BTreeMap<Identity, TableFile>,
    pub(crate) dropped: Vec<DroppedTable>,
    pub(crate) copy_of: Option<CopyOf>,
    /// The content of the table files.
    #[serde(skip)]
    pub(crate) tables: BTreeMap<Identity, Arc<TableEntry>>,
    /// The checksum of the file with this manifest.
    #[serde(skip)]
    pub(crate) sum: Hex64,
}

/// The entry of the journal in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JournalEntry {
    /// The number of the first file with rows that are in no segment. Earlier files are orphans.
    pub(crate) first: u64,
    /// The last file when the store was closed, and its length.
    pub(crate) closed: Option<(u64, u64)>,
}

/// A file of load history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryFile {
    pub(crate) file: String,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) bytes: u64,
    pub(crate) sum: Hex64,
}

impl Manifest {
    /// The manifest of a store that is to be made.
    ///
    /// # Errors
    /// `Io` if the system gives no random bytes.
    pub(crate) fn new() -> Result<Manifest> {
        let (store, seed) = (Identity::random()?, Hex64::random()?);
        Ok(Manifest { store, seed, ..Manifest::default() })
    }

    /// The times of a checkpoint: the reading of the clock that it is read at, and the end of its life.
    pub(crate) fn checkpoint_times(&self) -> Option<(SeenAt, SeenAt)> {
        let of = self.copy_of.as_ref().filter(|of| of.kind == CopyKind::Checkpoint)?;
        let instant = |millis: u64| SeenAt::from_millis(i64::try_from(millis).ok()?).ok();
        Some((instant(of.at)?, instant(of.until?)?))
    }

    /// Whether it was ever published.
    pub(crate) fn is_published(&self) -> bool {
        self.generation > 0
    }

    /// Where the manifest of a store is.
    pub(crate) fn path(root: &Path) -> PathBuf {
        root.join(NAME)
    }

    /// Reads the manifest of a store and its table files; `None` if there is none. Tables whose files `known`
    /// has are shared. Cost: a copy of `known`, if that is still published.
    pub(crate) fn read(disk: &dyn Disk, root: &Path, known: &Manifest) -> Result<Option<Manifest>> {
        let (path, mut tries) = (Manifest::path(root), 0);
        loop {
            let Some(bytes) = read_if_there(disk, &path)? else { return Ok(None) };
            if known.is_published() && sealed::is_sealed(KIND, &bytes, known.sum) {
                return Ok(Some(known.clone()));
            }
            let mut manifest = Manifest::decode(&path, &bytes)?;
            tries += 1;
            match manifest.read_tables(disk, &root.join(SEGMENTS), known) {
                Ok(done) => return done.map(|()| Some(manifest)),
                // A publication may have replaced the file meanwhile.
                Err((_, e)) if e.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                    if Manifest::publication_in(disk, root)? == Some(manifest.publication) {
                        let what = "a table file that it names is gone";
                        return Err(corrupt(&path, 0, what));
                    }
                }
                Err((path, e)) => return Err(io_error("read", &path, e)),
            }
        }
    }

    /// The publication of the manifest in place; `None` if there is none.
    pub(super) fn publication_in(disk: &dyn Disk, root: &Path) -> Result<Option<Hex64>> {
        let path = Manifest::path(root);
        let Some(bytes) = read_if_there(disk, &path)? else { return Ok(None) };
        Ok(Some(Manifest::decode(&path, &bytes)?.publication))
    }

    /// Reads the table files.
    fn read_tables(
        &mut self,
        disk: &dyn Disk,
        folder: &Path,
        known: &Manifest,
    ) -> std::result::Result<Result<()>, (PathBuf, io::Error)> {
        let read = |id: Identity, file: &TableFile| {
            let shared = known.table_files.get(&id).filter(|there| *there == file);
            match shared.and_then(|_| known.tables.get(&id)) {
                Some(entry) => Ok(Ok(entry.clone())),
                None => file.read(disk, folder, id).map_err(|e| (folder.join(&file.file), e)),
            }
        };
        let mut tables = BTreeMap::new();
        for (id, file) in &self.table_files {
            match read(*id, file)? {
                Ok(entry) => tables.insert(*id, entry),
                Err(e) => return Ok(Err(e)),
            };
        }
        for table in &mut self.dropped {
            let DroppedTable { name, file, bytes, sum, .. } = table.clone();
            match read(table.id, &TableFile { name, file, bytes, sum })? {
                Ok(entry) => table.entry = Some(entry),
                Err(e) => return Ok(Err(e)),
            }
        }
        self.tables = tables;
        Ok(self.check_files(&folder.with_file_name(NAME)))
    }

    /// Writes the table files of tables that differ from their files in the published manifest, durably;
    /// `new_file` gives names for them.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn write_tables(
        &mut self,
        disk: &dyn Disk,
        folder: &Path,
        published: &Manifest,
        now: u64,
        new_file: impl Fn() -> String,
    ) -> Result<()> {
        let mut has_new = false;
        let may_expire = self.clock.may_expire(now);
        for (id, entry) in &mut self.tables {
            if let Some(there) = published.tables.get(id).filter(|there| *there == entry) {
                *entry = there.clone();
                continue;
            }
            let changed = Arc::make_mut(entry);
            changed.changed = self.generation;
            if may_expire {
                changed.prune_kept(now);
            }
            self.table_files.insert(*id, entry.write(disk, folder, new_file())?);
            has_new = true;
        }
        let tables = &self.tables;
        self.table_files.retain(|id, _| tables.contains_key(id));
        match has_new {
            true => disk.sync_dir(folder).map_err(|e| io_error("sync", folder, e)),
            false => Ok(()),
        }
    }

    /// Replaces the manifest of a store by these bytes, durably. Its table files are written before.
    ///
    /// # Errors
    /// `Io`. If the last step fails, the new manifest may be in place without being durable.
    pub(crate) fn publish(disk: &dyn Disk, root: &Path, bytes: &[u8]) -> Result<()> {
        let (path, new) = (Manifest::path(root), root.join(NEW_NAME));
        let write = || {
            // An earlier attempt may have left the file.
            let mut file = create_anew(disk, &new)?;
            file.write_all(bytes)?;
            file.sync()
        };
        write().map_err(|e| io_error("write", &new, e))?;
        disk.rename(&new, &path).map_err(|e| io_error("replace", &path, e))?;
        disk.sync_dir(root).map_err(|e| {
            let what = format!(
                "cannot sync {}: the change is in place, but a power failure may undo it; \
                 repeat it, which is safe",
                root.display()
            );
            Error::with_source(ErrorKind::Io, what, e)
        })
    }

    /// Every file that the store needs, by name in the folder of segments.
    pub(crate) fn files(&self) -> HashSet<&str> {
        self.all_files().map(|(file, _)| file).collect()
    }

    /// Every file that the store needs, each with its ending.
    fn all_files(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let tables = self.tables.values().flat_map(|table| table.files());
        let table_files = self.table_files.values().map(|table| (table.file.as_str(), "tab"));
        tables.chain(table_files).chain(self.store_files())
    }

    /// The files that are of no table, each with its ending. Files of dropped tables are among them.
    pub(super) fn store_files(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let dropped = self.dropped.iter().filter_map(|table| table.entry.as_ref());
        let dropped = dropped.flat_map(|table| table.files());
        let table_files = self.dropped.iter().map(|table| (table.file.as_str(), "tab"));
        let of_names = self.names_erasures.values().flatten();
        let erasures = self.erasures.iter().chain(of_names).map(|file| (file.file.as_str(), "era"));
        let history = self.history.iter().map(|file| (file.file.as_str(), "his"));
        dropped.chain(table_files).chain(erasures).chain(history)
    }

    /// Whether the store needs the file at this path; `named` is the result of [`Manifest::files`].
    pub(super) fn needs(&self, named: &HashSet<&str>, path: &Path) -> bool {
        let folder = path.parent().and_then(Path::file_name).and_then(OsStr::to_str);
        match (folder, path.file_name().and_then(OsStr::to_str)) {
            (Some(SEGMENTS), Some(name)) => named.contains(name),
            (Some(JOURNAL), Some(name)) => {
                journal::number_of(name).is_some_and(|number| number >= self.journal.first)
            }
            _ => false,
        }
    }

    /// The table that has this name.
    pub(crate) fn named(&self, name: &TableName) -> Option<&Arc<TableEntry>> {
        self.tables.values().find(|table| table.name == *name)
    }

    /// A table to be changed.
    ///
    /// # Errors
    /// `TableNotFound` if it was dropped.
    pub(crate) fn table_mut(&mut self, id: Identity) -> Result<&mut TableEntry> {
        let dropped = || {
            let what = "the table was dropped meanwhile; nothing was written";
            Error::new(ErrorKind::TableNotFound, what)
        };
        self.tables.get_mut(&id).map(Arc::make_mut).ok_or_else(dropped)
    }

    /// Takes a table out at an instant. It stays among the dropped tables while the journal, up to this file,
    /// may have rows of it.
    ///
    /// # Errors
    /// `TableNotFound`.
    pub(crate) fn drop_table(&mut self, id: Identity, journal: Option<u64>, at: u64) -> Result<()> {
        self.table_mut(id)?;
        let (entry, file) = (self.tables.remove(&id), self.table_files.remove(&id));
        if let Some(TableFile { name, file, bytes, sum }) = file {
            let generation = self.generation;
            let until = at;
            let dropped =
                DroppedTable { id, name, file, bytes, sum, generation, journal, at, until, entry };
            self.dropped.push(dropped);
        }
        Ok(())
    }

    /// Forgets dropped tables that are no longer needed.
    pub(super) fn forget_dropped(&mut self, now: u64) {
        let first = self.journal.first;
        self.dropped.retain(|table| table.is_needed(first, now));
    }

    /// The file of a table, in the folder of segments.
    pub(crate) fn table_file(&self, id: Identity) -> Option<&str> {
        self.table_files.get(&id).map(|table| table.file.as_str())
    }

    /// Reads and checks the file of a table.
    pub(crate) fn check_table_file(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        table: &TableEntry,
    ) -> Result<()> {
        let Some(file) = self.table_files.get(&table.id) else { return Ok(()) };
        let read = file.read(disk, folder, table.id);
        read.map_err(|e| io_error("read", &folder.join(&file.file), e))?.map(drop)
    }

    /// The tombstone files of a table; none if there is no such table.
    pub(crate) fn tombstone_files(&self, table: Identity) -> &[TombstoneFile] {
        self.tables.get(&table).map_or(&[], |entry| &entry.tombstones)
    }

    /// The owner of a table's tombstones.
    pub(crate) fn tombstone_owner(&self, table: Identity) -> TombstoneOwner {
        TombstoneOwner { store: self.store, table }
    }

    /// The key of tombstone hashes.
    pub(crate) fn erasure_key(&self) -> Result<Option<ErasureKey>> {
        let parsed = self.erasure_key.as_deref().map(str::parse).transpose();
        parsed.map_err(|e: ErasureKeyError| {
            Error::with_source(ErrorKind::Corrupt, "the manifest is damaged", e)
        })
    }

    /// The seed of the hashes of identifiers.
    pub(crate) fn hash_seed(&self) -> HashSeed {
        HashSeed(self.seed.0)
    }

    /// The bytes of its file. Their checksum is set in the manifest.
    pub(crate) fn encode(&mut self) -> Result<Vec<u8>> {
        let (bytes, sum) = sealed::seal(KIND, &sealed::to_json(KIND, self)?);
        self.sum = sum;
        Ok(bytes)
    }

    /// Reads the bytes of a manifest, without its tables.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Manifest> {
        let (mut manifest, sum): (Manifest, _) = sealed::unseal(KIND, path, bytes)?;
        manifest.sum = sum;
        manifest.check_files(path)?;
        let mut names = HashSet::new();
        let is_whole = manifest.is_published()
            && !manifest.store.is_none()
            && manifest.erasure_key().is_ok()
            && manifest.table_files.values().all(|table| names.insert(&table.name))
            && !manifest.names_erasures.keys().any(|name| names.contains(name));
        match is_whole {
            true => Ok(manifest),
            false => Err(corrupt(path, 0, "the manifest contradicts itself")),
        }
    }

    /// Refuses names that no file of a store has, and a file that two entries name. So nothing is read or
    /// removed by such a manifest.
    fn check_files(&self, path: &Path) -> Result<()> {
        let mut named = HashSet::new();
        for (file, ending) in self.all_files() {
            let number = file_number(file, ending).filter(|number| *number < self.next_file);
            if number.is_none_or(|number| !named.insert(number)) {
                let what =
                    format!("the manifest names {file:?}, which is no {ending} file of its own");
                return Err(corrupt(path, 0, &what));
            }
        }
        Ok(())
    }
}
