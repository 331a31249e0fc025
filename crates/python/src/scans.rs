//! All rows of a table, for Python.

use crate::errors::OrRaise;
use crate::interrupt::{short, uninterrupted};
use crate::rows::{RowSource, Rows};
use crate::tables::Table;
use crate::values::window;
use arrow_array::Int32Array;
use arrow_array::cast::AsArray;
use arrow_cast::cast;
use arrow_schema::{DataType, SchemaRef};
use idmatch_model::Side;
use idmatch_store::{
    Call, Columns, Error, ErrorKind, MatchSink, Result, ScanQuery, ScanRanges, ScanSplit,
    TableSnapshot,
};
use pyo3::prelude::*;
use pyo3_arrow::PyArray;
use std::str::FromStr;
use std::sync::Arc;

/// The rows of a table with a date in a window.
struct TableScan {
    table: Arc<dyn TableSnapshot>,
    /// The range to scan; `None` for all of the table.
    range: Option<ScanSplit>,
    query: ScanQuery,
}

impl RowSource for TableScan {
    fn schema(&self) -> SchemaRef {
        self.query.columns.schema(Side::Id)
    }

    fn count(&self) -> Option<u64> {
        None
    }

    fn write(&self, sink: &dyn MatchSink, call: &Call) -> Result<()> {
        match &self.range {
            None => self.table.scan(&ScanRanges::all(), self.query, sink, call),
            Some(range) => self.table.scan_split(range, self.query, sink, call),
        }
    }
}

/// Divides the table into `count` ranges; returns them as texts.
#[pyfunction]
pub(crate) fn scan_ranges(py: Python<'_>, table: &Table, count: usize) -> PyResult<Vec<String>> {
    let reader = table.reader(py)?;
    let table = short(py, table.context().is_remote, |call| reader.open(call))?.or_raise(py)?;
    Ok(table.splits(count).iter().map(ToString::to_string).collect())
}

/// All visible observations with a date in the window, or only the observations of a range, with some of
/// their columns: id, partner_id and seen_at.
#[pyfunction]
#[pyo3(signature = (table, range, since, until, columns))]
pub(crate) fn scan(
    py: Python<'_>,
    table: &Table,
    range: Option<&str>,
    since: Option<i64>,
    until: Option<i64>,
    columns: (bool, bool, bool),
) -> PyResult<Rows> {
    let (reader, window) = (table.reader(py)?, window(py, since, until)?);
    let range = range.map(ScanSplit::from_str).transpose().or_raise(py)?;
    let found = short(py, table.context().is_remote, |call| reader.open(call))?.or_raise(py)?;
    let (key, value, seen_at) = columns;
    let query = ScanQuery { window, columns: Columns { key, value, seen_at } };
    Ok(Rows::new(TableScan { table: found, range, query }, &table.context().calls))
}

/// The scan range of each identifier, and null for null: an Arrow array, as `__arrow_c_array__` gives it.
#[pyfunction]
pub(crate) fn partition_of(py: Python<'_>, table: &Table, ids: PyArray) -> PyResult<PyArray> {
    let reader = table.reader(py)?;
    let table = short(py, table.context().is_remote, |call| reader.open(call))?.or_raise(py)?;
    let ranges = uninterrupted(py, || {
        let texts = cast(ids.array(), &DataType::Utf8View)
            .map_err(|e| Error::with_source(ErrorKind::InvalidArgument, "ids are no text", e))?;
        // Lossless: there are 4,096.
        let range_of = |id: Option<&str>| id.map(|id| table.scan_range_of(id) as i32);
        Ok::<Int32Array, Error>(texts.as_string_view().iter().map(range_of).collect())
    })?;
    let ranges = ranges.or_raise(py)?;
    Ok(PyArray::from_array_ref(Arc::new(ranges)))
}
