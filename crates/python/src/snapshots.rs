//! The class `Snapshot` of Python. Its tables read from it until it is closed.

use crate::errors::OrRaise;
use crate::interrupt::{short, uninterrupted};
use crate::process::Own;
use crate::store_context::{Frozen, StoreContext, open};
use crate::tables::Table;
use idmatch_model::TableName;
use idmatch_store::locks::{Mutex, RwLock};
use idmatch_store::{Call, Opened};
use pyo3::prelude::*;
use std::sync::Arc;

/// All tables of a store at one point.
#[pyclass(frozen, module = "idmatch._core")]
pub(crate) struct Snapshot {
    store: Own<dyn idmatch_store::Store>,
    slot: Own<RwLock<Option<Arc<dyn idmatch_store::Snapshot>>>>,
    /// Counts the snapshot as open until it is closed.
    opened: Mutex<Option<Opened>>,
    context: StoreContext,
}

impl Snapshot {
    pub(crate) fn new(
        store: Arc<dyn idmatch_store::Store>,
        snapshot: Arc<dyn idmatch_store::Snapshot>,
        context: StoreContext,
    ) -> Snapshot {
        let (store, slot) = (Own::of(store), Own::new(RwLock::new(Some(snapshot))));
        let opened = Mutex::new(Some(context.calls.opened_snapshot()));
        Snapshot { store, slot, opened, context }
    }

    fn open(&self, py: Python<'_>) -> PyResult<Arc<dyn idmatch_store::Snapshot>> {
        self.context.check_open(py)?;
        open(self.slot.get(py)?).or_raise(py)
    }
}

#[pymethods]
impl Snapshot {
    /// The version as text; `None` on servers.
    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let version = self.open(py)?.version();
        Ok(version.map(|version| version.to_string()))
    }

    /// The names of all tables, ascending.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let snapshot = self.open(py)?;
        let names =
            short(py, self.context.is_remote, |call| snapshot.tables(call))?.or_raise(py)?;
        Ok(names.into_iter().map(String::from).collect())
    }

    /// A table.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let snapshot = self.open(py)?;
        let name: TableName = name.parse().or_raise(py)?;
        let resolve = |call: &Call| snapshot.resolve(&name, call);
        let id = short(py, self.context.is_remote, resolve)?.or_raise(py)?;
        let frozen = Frozen { slot: Arc::clone(self.slot.get(py)?), id };
        let table = idmatch_store::Table::named(self.store.get(py)?, &name);
        Ok(Table::new(table, Some(frozen), self.context.clone()))
    }

    /// Releases the files that only this snapshot needs.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // In a fork, a thread of the parent may have a lock.
        let Some(slot) = self.slot.here() else { return Ok(()) };
        drop(self.opened.lock().take());
        let snapshot = slot.write().take();
        uninterrupted(py, || drop(snapshot))
    }
}
