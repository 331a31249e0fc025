//! All tables of a store. Each question reads rows and metadata as they are then; a snapshot fixes only its
//! reading of the clock.

use crate::table::CqlTable;
use crate::tables::Tables;
use idmatch_model::{SeenAt, TableId, TableName};
use idmatch_store::{Call, Result, Snapshot, TableSnapshot, Version};
use std::sync::Arc;

/// The tables of a store, with a reading of the clock.
pub(crate) struct CqlSnapshot {
    tables: Arc<Tables>,
    at: SeenAt,
}

impl CqlSnapshot {
    pub(crate) fn new(tables: &Arc<Tables>, at: SeenAt) -> CqlSnapshot {
        CqlSnapshot { tables: Arc::clone(tables), at }
    }
}

impl Snapshot for CqlSnapshot {
    fn version(&self) -> Option<Version> {
        None
    }

    fn tables(&self, call: &Call) -> Result<Vec<TableName>> {
        self.tables.read(call, self.tables.all())
    }

    fn resolve(&self, name: &TableName, call: &Call) -> Result<TableId> {
        self.tables.read(call, self.tables.resolve(name))
    }

    fn table(&self, id: TableId, call: &Call) -> Result<Arc<dyn TableSnapshot>> {
        let context = self.tables.context(id, call)?;
        let metadata = self.tables.read(call, context.metadata_cache.current())?;
        let (name, options) = (metadata.definition.name.clone(), metadata.definition.options());
        Ok(Arc::new(CqlTable { context, name, options, at: self.at }))
    }
}
