//! A store on disk: a folder with a manifest and segments.
//!
//! ```text
//! STORE/MANIFEST          which tables there are and which segments each has
//! STORE/LOCK              held by the process that writes, while it writes
//! STORE/segments/*.seg    immutable, durable before the manifest names them
//! STORE/journal/*.log     what was upserted and is in no segment yet
//! STORE/scratch/*.tmp     only while a load runs
//! ```
//! Readers take the manifest as it is and keep an immutable [`view::View`] of it; they hold
//! no lock. A writer takes the lock, adds files, replaces the manifest. Whatever a killed
//! writer left is removed by whoever next gets the lock.

mod backlog;
mod backup;
mod compacting;
mod distinct;
mod erase;
mod flush;
mod group;
mod hold;
mod live;
mod manifest;
mod mend;
mod refresh;
mod repair;
mod salvage;
mod scan;
mod shared;
mod table;
mod verify;
mod view;
mod walk;

pub(crate) use manifest::Manifest;
pub(crate) use view::TableView;

use crate::disk::{Disk, OsDisk};
use crate::limits::MemoryLimits;
use idmatch_model::{ErasureKey, TableName, TableOptions};
use idmatch_store::{Durability, Error, ErrorKind, Finding, Result, Store, Table};
use shared::{Shared, User};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use table::EngineTable;

/// The embedded store.
#[derive(Debug, Clone)]
pub struct EngineStore {
    shared: Arc<User>,
}

impl EngineStore {
    /// Opens the store in a folder. A folder that does not exist yet, or is empty, is a
    /// store without tables; the first write makes what it needs.
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

    /// Opens a store whose loads hold to these limits.
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
        let shared = Arc::new(Shared::open(disk, &root, limits)?);
        Ok(EngineStore { shared: User::new(shared) })
    }

    /// What upserts of this process promise from now on, unless they ask for more.
    pub fn set_durability(&self, durability: Durability) {
        self.shared.set_durability(durability);
    }

    /// What upserts promise unless they ask for more.
    pub fn durability(&self) -> Durability {
        self.shared.durability()
    }

    /// Ends the writing of this process, so that another may write. Reading goes on; the next
    /// write obtains the right again.
    ///
    /// # Errors
    /// `Io` if that could not be noted in the manifest; nothing is lost then.
    pub fn close(&self) -> Result<()> {
        self.shared.close()
    }

    /// Mends a store that cannot be opened because a segment is missing or its header is damaged, or the
    /// journal is: what can be read becomes a store that opens. Returns what was wrong; nothing, and
    /// nothing is changed, where the store can be opened. [`Table::repair`] mends the rest.
    ///
    /// # Errors
    /// `Corrupt`, and nothing changes, if something would be lost and that is not accepted, or if
    /// the manifest or the list of erasures is damaged; `Busy` while another process writes.
    pub fn mend(disk: Arc<dyn Disk>, root: &Path, accept_loss: bool) -> Result<Vec<Finding>> {
        Shared::unread(disk, root, MemoryLimits::default()).mend(accept_loss)
    }

    /// Copies a backup to a place where nothing is yet, and opens it.
    ///
    /// # Errors
    /// Those of [`EngineStore::open`] for the backup; `InvalidArgument` if the place is taken.
    pub fn restore(source: &Path, destination: &Path) -> Result<EngineStore> {
        let backup = EngineStore::open(source)?;
        if backup.shared.view().tables.is_empty() {
            return Err(Error::new(
                ErrorKind::NotAStore,
                format!("{} holds no backup: there is no table in it", source.display()),
            ));
        }
        backup.backup(destination)?;
        EngineStore::open(destination)
    }
}

impl Store for EngineStore {
    fn create_table(&self, name: &TableName, options: &TableOptions) -> Result<Arc<dyn Table>> {
        self.shared.create_table(name, options)?;
        self.table(name)
    }

    /// Until its first load, questions to it are errors (`TableNotFound`).
    fn new_table(&self, name: &TableName, options: &TableOptions) -> Result<Arc<dyn Table>> {
        self.shared.check_options(name, options)?;
        Ok(Arc::new(EngineTable::new(self.shared.clone(), name.clone(), options.clone())))
    }

    fn table(&self, name: &TableName) -> Result<Arc<dyn Table>> {
        let view = self.shared.view();
        let Some(table) = view.tables.get(name) else {
            let names: Vec<&str> = view.tables.keys().map(TableName::as_str).collect();
            let there = match names.as_slice() {
                [] => "it has no tables".to_owned(),
                names => format!("it has {}", names.join(", ")),
            };
            return Err(Error::new(
                ErrorKind::TableNotFound,
                format!("{} has no table {name}; {there}", self.shared.root().display()),
            ));
        };
        Ok(Arc::new(EngineTable::new(self.shared.clone(), name.clone(), table.options.clone())))
    }

    fn tables(&self) -> Result<Vec<TableName>> {
        Ok(self.shared.view().tables.keys().cloned().collect())
    }

    fn refresh(&self) -> Result<()> {
        self.shared.refresh()
    }

    fn backup(&self, destination: &Path) -> Result<()> {
        self.shared.backup(destination)
    }

    fn adopt_erasure_key(&self, key: ErasureKey) -> Result<ErasureKey> {
        self.shared.adopt_erasure_key(key)
    }

    fn end(&self) -> Result<()> {
        self.shared.has_ended.store(true, Relaxed);
        self.shared.close()
    }
}
