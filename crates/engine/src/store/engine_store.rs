//! The store of a directory: opens it, and delegates to the owners.

use super::handle::StoreHandle;
use super::table::EngineTable;
use crate::catalog;
use crate::disk::{Disk, OsDisk};
use crate::options::MemoryLimits;
use crate::recovery::Recovery;
use crate::verify::verify_files;
use crate::versions::{CopyKind, VersionSet};
use crate::writer_lock::WriterLock;
use idmatch_model::{ErasureKey, TableName, TableOptions};
use idmatch_store::{Durability, Error, ErrorKind, Finding, Result, Store, Table};
use std::path::Path;
use std::sync::Arc;

/// A store in a folder. Clones share it.
#[derive(Debug, Clone)]
pub struct EngineStore {
    owners: Arc<StoreHandle>,
}

impl EngineStore {
    /// Opens the store in a folder. A folder that does not exist yet, or is empty, is a
    /// store without tables; the first write makes what it needs. Handles of one process share the writer,
    /// the memory and what they see.
    ///
    /// # Errors
    /// `NotAStore` if the folder holds something else, `Corrupt` and `UnsupportedFormat` for
    /// damaged or newer files. Cost: two small reads per segment.
    pub fn open(root: &Path) -> Result<EngineStore> {
        EngineStore::open_on(Arc::new(OsDisk), root)
    }

    /// Opens a store on a disk of the caller's.
    pub fn open_on(disk: Arc<dyn Disk>, root: &Path) -> Result<EngineStore> {
        EngineStore::open_with(disk, root, MemoryLimits::default())
    }

    /// Opens a store that holds to these limits; one that is open in this process keeps its own.
    pub fn open_with(
        disk: Arc<dyn Disk>,
        root: &Path,
        limits: MemoryLimits,
    ) -> Result<EngineStore> {
        // It stays the same when the process goes to another folder.
        let root = std::path::absolute(root).map_err(|e| {
            let what = format!("{root:?} is no path of a store");
            Error::with_source(ErrorKind::InvalidArgument, what, e)
        })?;
        Ok(EngineStore { owners: StoreHandle::open(disk, &root, limits)? })
    }

    /// What upserts through this handle and its clones promise from now on, unless they ask for more.
    pub fn set_durability(&self, durability: Durability) {
        self.owners.set_durability(durability);
    }

    /// What upserts promise unless they ask for more.
    pub fn durability(&self) -> Durability {
        self.owners.durability()
    }

    /// Ends the writing of this process, so that another may write. Reading goes on; the next
    /// write obtains the right again.
    ///
    /// # Errors
    /// `Io` if that could not be noted in the manifest; nothing is lost then.
    pub fn close(&self) -> Result<()> {
        self.owners.writes.close()
    }

    /// Recovers a store that does not open because a segment is missing or its header is damaged, or because
    /// the journal is damaged: what can be read becomes a store that opens. A manifest that is older than
    /// the one that was published last can be accepted, too. Returns the problems; none,
    /// and nothing is changed, if the store opens. [`Table::repair`] repairs the rest.
    ///
    /// # Errors
    /// `Corrupt`, and nothing changes, if something would be lost and that is not accepted, or if
    /// the manifest or a tombstone file is damaged; `Busy` while another process writes.
    pub fn recover(
        disk: Arc<dyn Disk>,
        root: &Path,
        accept_loss: bool,
        accept_older: bool,
    ) -> Result<Vec<Finding>> {
        let versions = Arc::new(VersionSet::unopened(disk, root, MemoryLimits::default()));
        let lock = WriterLock::new(versions.clone());
        Recovery { versions: &versions, lock: &lock }.run(accept_loss, accept_older)
    }

    /// Copies a backup to an empty place, and opens it. With `verify`, every checksum of the backup is
    /// verified first. Cost: the files are read once for that; where hard links are possible, the copy
    /// itself costs little.
    ///
    /// # Errors
    /// Those of [`EngineStore::open`] for the backup; `InvalidArgument` if the place is taken; `Corrupt`,
    /// and nothing is copied, if a file of the backup is damaged.
    pub fn restore(source: &Path, destination: &Path, verify: bool) -> Result<EngineStore> {
        let backup = EngineStore::open(source)?;
        if backup.owners.versions.current().tables.is_empty() {
            return Err(Error::new(
                ErrorKind::NotAStore,
                format!("{} holds no backup: there is no table in it", source.display()),
            ));
        }
        if verify {
            let versions = &backup.owners.versions;
            let findings = verify_files(versions, &versions.current())?;
            if let Some(first) = findings.first() {
                let (damaged, problem) = (findings.len(), &first.problem);
                let text = format!(
                    "{damaged} files of the backup are damaged, nothing was restored: {problem}; take \
                     another backup, or restore without verification and repair the store"
                );
                return Err(Error::new(ErrorKind::Corrupt, text));
            }
        }
        backup.owners.backup(destination, None)?;
        EngineStore::open(destination)
    }
}

impl Store for EngineStore {
    fn create_table(&self, name: &TableName, options: &TableOptions) -> Result<Arc<dyn Table>> {
        self.owners.check_open()?;
        catalog::create_table(&self.owners.versions, &self.owners.lock, name, options)?;
        self.table(name)
    }

    /// Until its first load, questions to it are errors (`TableNotFound`).
    fn new_table(&self, name: &TableName, options: &TableOptions) -> Result<Arc<dyn Table>> {
        self.owners.versions.check_options(name, options)?;
        Ok(Arc::new(EngineTable::new(self.owners.clone(), name.clone(), options.clone())))
    }

    fn table(&self, name: &TableName) -> Result<Arc<dyn Table>> {
        let version = self.owners.versions.current();
        let Some(table) = version.tables.get(name) else {
            let names: Vec<&str> = version.tables.keys().map(TableName::as_str).collect();
            let there = match names.as_slice() {
                [] => "it has no tables".to_owned(),
                names => format!("it has {}", names.join(", ")),
            };
            return Err(Error::new(
                ErrorKind::TableNotFound,
                format!("{} has no table {name}; {there}", self.owners.versions.root.display()),
            ));
        };
        Ok(Arc::new(EngineTable::new(self.owners.clone(), name.clone(), table.options.clone())))
    }

    fn tables(&self) -> Result<Vec<TableName>> {
        Ok(self.owners.versions.current().tables.keys().cloned().collect())
    }

    fn refresh(&self) -> Result<()> {
        self.owners.lock.refresh()
    }

    fn backup(&self, destination: &Path) -> Result<()> {
        self.owners.check_open()?;
        self.owners.backup(destination, Some(CopyKind::Backup))
    }

    fn adopt_erasure_key(&self, key: ErasureKey) -> Result<ErasureKey> {
        self.owners.check_open()?;
        self.owners.eraser.adopt_key(key)
    }

    fn end(&self) -> Result<()> {
        self.owners.close()
    }
}
