//! The state of the reference: its tables by name, and the tombstones of names without a table. Must not know
//! what a session does.

use super::parts::MemorySharedSession;
use super::table::MemoryTable;
use idmatch_model::{ErasureKey, SeenAt, TableId, TableName};
use idmatch_store::{Committed, Error, ErrorKind, Result, SessionId, WriteKey, WriteKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The outcomes of write sessions by their keys.
type Outcomes = BTreeMap<(TableId, WriteKey), (WriteKind, Committed)>;

#[derive(Clone, Default)]
pub(super) struct MemoryState {
    /// Shared with the snapshots that show no other tables.
    pub(super) tables: Arc<BTreeMap<TableName, MemoryTable>>,
    /// The tombstones of names that tables have left.
    pub(super) left: BTreeMap<TableName, Vec<(u128, SeenAt)>>,
    /// The key of the tombstones, chosen with the first tombstone.
    pub(super) erasure_key: Option<ErasureKey>,
    /// The writes so far.
    pub(super) commit: u64,
    /// Names the store; chosen with the first table.
    pub(super) id: u128,
    pub(super) outcomes: Outcomes,
    /// The sessions that any handle may go on with.
    pub(super) shared: BTreeMap<(TableId, SessionId), MemorySharedSession>,
}

impl MemoryState {
    pub(super) fn table(&self, id: TableId) -> Result<&MemoryTable> {
        self.tables.values().find(|table| table.id == id).ok_or_else(|| missing(id))
    }

    pub(super) fn resolve(&self, name: &TableName) -> Result<&MemoryTable> {
        self.tables.get(name).ok_or_else(|| unnamed(name))
    }

    /// A table that is about to change.
    pub(super) fn change(&mut self, id: TableId) -> Result<&mut MemoryTable> {
        self.commit += 1;
        Arc::make_mut(&mut self.tables)
            .values_mut()
            .find(|table| table.id == id)
            .ok_or_else(|| missing(id))
    }

    /// Takes the table of this name out, to be given another one or none.
    pub(super) fn take(&mut self, name: &TableName) -> Result<MemoryTable> {
        self.commit += 1;
        Arc::make_mut(&mut self.tables).remove(name).ok_or_else(|| unnamed(name))
    }

    /// Gives a table a name that is free, with the tombstones that the name has.
    pub(super) fn put(&mut self, mut table: MemoryTable, name: &TableName) -> Result<()> {
        if let Some(tombstones) = self.left.remove(name) {
            let key = self.key()?;
            Arc::make_mut(&mut table.observed).erase(key, &tombstones);
        }
        table.name = name.clone();
        Arc::make_mut(&mut self.tables).insert(name.clone(), table);
        Ok(())
    }

    /// The key of the tombstones, which is chosen here if there is none.
    pub(super) fn key(&mut self) -> Result<ErasureKey> {
        let new = ErasureKey::new(random()?);
        Ok(*self.erasure_key.get_or_insert(new))
    }
}

fn unnamed(name: &TableName) -> Error {
    let text = format!("there is no table {name}; create it first");
    Error::new(ErrorKind::TableNotFound, text)
}

fn missing(id: TableId) -> Error {
    Error::new(ErrorKind::TableNotFound, format!("there is no table with the identity {id}"))
}

pub(super) fn random() -> Result<[u8; 16]> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|e| Error::with_source(ErrorKind::Io, "the system gives no random bytes", e))?;
    Ok(random)
}
