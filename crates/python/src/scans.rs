//! All rows of a table, for Python.

use crate::errors::OrRaise;
use crate::interrupt::uninterrupted;
use crate::rows::{RowSource, Rows};
use crate::tables::Table;
use crate::values::window;
use arrow_schema::SchemaRef;
use idmatch_model::{Side, Window};
use idmatch_store::{Call, MatchSink, Parts, Result, TableSnapshot, match_schema};
use pyo3::prelude::*;
use std::sync::Arc;

/// The rows of a table with a date in a window.
struct Scan {
    table: Arc<dyn TableSnapshot>,
    window: Window,
}

impl RowSource for Scan {
    fn schema(&self) -> SchemaRef {
        match_schema(Side::Id)
    }

    fn count(&self) -> Option<u64> {
        None
    }

    fn write(&self, sink: &dyn MatchSink, call: &Call) -> Result<()> {
        self.table.scan(&Parts::all(), self.window, sink, call)
    }
}

/// All visible observations with a date in the window.
#[pyfunction]
#[pyo3(signature = (table, since, until))]
pub(crate) fn scan(
    py: Python<'_>,
    table: &Table,
    since: Option<i64>,
    until: Option<i64>,
) -> PyResult<Rows> {
    let (reader, window) = (table.reader(py)?, window(py, since, until)?);
    let table = uninterrupted(py, || reader.open(&Call::default()))?.or_raise(py)?;
    Ok(Rows::new(Scan { table, window }))
}
