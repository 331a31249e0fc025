//! The reference: a store in memory that is as plain as can be.
//!
//! It exists to be obviously right, so that other backends can be compared with it. It
//! holds every observation in ordered maps, answers by looking at all dates of a key, and
//! computes a match completely before it hands it out. Nothing here is fast.

mod matched;
mod observed;
mod scan;
mod table;

use idmatch_model::{ErasureKey, TableName, TableOptions};
use idmatch_store::{Error, ErrorKind, Result, Store, Table};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use table::MemoryTable;

/// A store that is gone when it is dropped.
#[derive(Default)]
pub struct MemoryStore {
    tables: Mutex<BTreeMap<TableName, Arc<MemoryTable>>>,
    /// What erasures are hashed with; chosen with the first.
    erasure_key: Arc<OnceLock<ErasureKey>>,
}

impl MemoryStore {
    /// A store without tables.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TableName, Arc<MemoryTable>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn create_table(&self, name: &TableName, options: &TableOptions) -> Result<Arc<dyn Table>> {
        let mut tables = self.lock();
        let table = tables.entry(name.clone()).or_insert_with(|| {
            let key = self.erasure_key.clone();
            Arc::new(MemoryTable::new(name.clone(), options.clone(), key))
        });
        let there = table.options()?;
        if there != *options {
            return Err(Error::other_options(name, &there, options));
        }
        Ok(table.clone())
    }

    fn table(&self, name: &TableName) -> Result<Arc<dyn Table>> {
        match self.lock().get(name) {
            Some(table) => Ok(table.clone()),
            None => Err(Error::new(
                ErrorKind::TableNotFound,
                format!("there is no table {name}; create it first"),
            )),
        }
    }

    fn tables(&self) -> Result<Vec<TableName>> {
        Ok(self.lock().keys().cloned().collect())
    }

    fn refresh(&self) -> Result<()> {
        Ok(())
    }

    fn adopt_erasure_key(&self, key: ErasureKey) -> Result<ErasureKey> {
        Ok(*self.erasure_key.get_or_init(|| key))
    }

    fn backup(&self, destination: &Path) -> Result<()> {
        Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("cannot back up to {}: a store in memory has no files", destination.display()),
        ))
    }
}
