//! Finds the table that a call of Python reads: as it is now, or as a snapshot shows it. Must not know what a
//! call reads.

use crate::store_context::{self, Frozen};
use idmatch_model::TableOptions;
use idmatch_store::{Call, Result, Snapshot, TableSnapshot};
use std::sync::Arc;

/// A table, and the snapshot that it is read from.
pub(crate) struct Inner {
    pub(crate) table: idmatch_store::Table,
    pub(crate) frozen: Option<Frozen>,
}

/// Finds the table at each call.
#[derive(Clone, Copy)]
pub(crate) struct TableReader<'t>(&'t Inner);

impl<'t> TableReader<'t> {
    pub(crate) fn of(inner: &'t Inner) -> TableReader<'t> {
        TableReader(inner)
    }

    /// All tables of its store, as they are or as its snapshot shows them.
    pub(crate) fn snapshot(self, call: &Call) -> Result<Arc<dyn Snapshot>> {
        match &self.0.frozen {
            Some(frozen) => store_context::open(&frozen.slot),
            None => self.0.table.store().snapshot(call),
        }
    }

    /// The table among these.
    pub(crate) fn open_in(
        self,
        tables: &dyn Snapshot,
        call: &Call,
    ) -> Result<Arc<dyn TableSnapshot>> {
        match &self.0.frozen {
            Some(frozen) => tables.table(frozen.id, call),
            None => tables.table_named(self.0.table.name(), call),
        }
    }

    /// The table.
    pub(crate) fn open(self, call: &Call) -> Result<Arc<dyn TableSnapshot>> {
        self.open_in(self.snapshot(call)?.as_ref(), call)
    }

    /// Its options.
    pub(crate) fn options(self, call: &Call) -> Result<TableOptions> {
        Ok(self.open(call)?.options().clone())
    }
}
