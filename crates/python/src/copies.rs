//! Copies of tables between stores.

use crate::errors::OrRaise;
use crate::interrupt::interruptible;
use crate::stores::Store;
use crate::tables::Table;
use idmatch_model::TableName;
use idmatch_store::CopyOptions;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Copies a table to a store.
#[pyfunction]
#[pyo3(signature = (table, store, name, batch_rows, merge, accept_lost_erasures))]
#[allow(clippy::too_many_arguments, reason = "Python names them")]
pub(crate) fn copy_table<'py>(
    py: Python<'py>,
    table: &Bound<'py, Table>,
    store: &Bound<'py, Store>,
    name: &str,
    batch_rows: u64,
    merge: bool,
    accept_lost_erasures: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let name: TableName = name.parse().or_raise(py)?;
    let (source, destination) = (table.get().written(py)?, store.get().open(py)?);
    let options = CopyOptions { batch_rows, merge, accept_lost_erasures };
    let copied = interruptible(py, |watch| {
        idmatch_store::copy_table(source, &destination, &name, options, &watch.call())
    })?;
    let copied = copied.or_raise(py)?;
    let figures = PyDict::new(py);
    figures.set_item("rows", copied.source.rows)?;
    figures.set_item("sent", copied.sent)?;
    figures.set_item("rows_there", copied.destination.rows)?;
    figures.set_item("checksum", format!("{:032x}", copied.source.hash))?;
    figures.set_item("checksum_there", format!("{:032x}", copied.destination.hash))?;
    figures.set_item("erasures", copied.erasures)?;
    figures.set_item("erasures_lost", copied.lost_erasures)?;
    Ok(figures)
}
