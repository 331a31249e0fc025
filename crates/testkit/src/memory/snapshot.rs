//! A snapshot of the reference, as a reader sees it.

use super::state::MemoryState;
use idmatch_model::{SeenAt, TableId, TableName};
use idmatch_store::{Call, Result, Snapshot, TableSnapshot, Version};
use std::sync::Arc;

/// A copy of all tables.
pub(super) struct MemorySnapshot {
    pub(super) state: MemoryState,
    pub(super) at: SeenAt,
}

impl Snapshot for MemorySnapshot {
    fn version(&self) -> Option<Version> {
        let MemoryState { id, commit, .. } = self.state;
        Some(Version { store: id, publication: 0, journal: 0, commit })
    }

    fn tables(&self, _: &Call) -> Result<Vec<TableName>> {
        Ok(self.state.tables.keys().cloned().collect())
    }

    fn resolve(&self, name: &TableName, _: &Call) -> Result<TableId> {
        self.state.resolve(name).map(|table| table.id)
    }

    fn table(&self, id: TableId, _: &Call) -> Result<Arc<dyn TableSnapshot>> {
        let table = self.state.table(id)?.clone();
        Ok(Arc::new(table.at(self.version(), self.at)))
    }
}
