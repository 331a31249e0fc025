//! The answers for one key, as a pyarrow table, and figures about a table.
//!
//! A lookup takes microseconds, and the making of a pyarrow table would be a good part of them.
//! So [`Maker`] gets the schema and the functions of pyarrow once. Each lookup then passes only
//! columns, by Arrow's C data interface. `pyo3_arrow` would have the schema read for each batch.

use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::{Array, ArrayRef, StructArray, TimestampMillisecondArray};
use arrow_schema::Fields;
use idmatch_model::{SeenAt, Side};
use idmatch_store::{Answers, Counting, TableStats, match_schema};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use pyo3_arrow::PySchema;
use pyo3_arrow::error::PyArrowError;
use std::sync::Arc;

/// The columns of a match that hold answers; the remaining column is the key.
const COLUMNS: [usize; 2] = [1, 2];

/// Makes tables of answers for keys of one side.
struct Maker {
    fields: Fields,
    schema: Py<PyAny>,
    import_batch: Py<PyAny>,
    from_batches: Py<PyAny>,
}

static BY_ID: PyOnceLock<Maker> = PyOnceLock::new();
static BY_PARTNER_ID: PyOnceLock<Maker> = PyOnceLock::new();

impl Maker {
    fn of(py: Python<'_>, by: Side) -> PyResult<&Maker> {
        let maker = match by {
            Side::Id => &BY_ID,
            Side::PartnerId => &BY_PARTNER_ID,
        };
        maker.get_or_try_init(py, || Maker::new(py, by))
    }

    fn new(py: Python<'_>, by: Side) -> PyResult<Maker> {
        let pyarrow = py.import("pyarrow")?;
        let schema = match_schema(by).project(&COLUMNS).map_err(PyArrowError::from)?;
        let fields = schema.fields().clone();
        let schema = PySchema::new(Arc::new(schema)).into_pyarrow(py)?.unbind();
        let import_batch = pyarrow.getattr("RecordBatch")?.getattr("_import_from_c")?.unbind();
        let from_batches = pyarrow.getattr("Table")?.getattr("from_batches")?.unbind();
        Ok(Maker { fields, schema, import_batch, from_batches })
    }
}

/// Moves the answers of one key to a pyarrow table.
pub(crate) fn into_pyarrow(
    py: Python<'_>,
    by: Side,
    answers: Answers,
) -> PyResult<Bound<'_, PyAny>> {
    let maker = Maker::of(py, by)?;
    let (values, seen_at) = answers.into_columns();
    let dates = TimestampMillisecondArray::from(seen_at).with_timezone("UTC");
    let columns: Vec<ArrayRef> = vec![Arc::new(values), Arc::new(dates)];
    let rows =
        StructArray::try_new(maker.fields.clone(), columns, None).map_err(PyArrowError::from)?;
    // pyarrow moves the content out and marks the array as moved; the drop here frees the rest.
    let mut array = FFI_ArrowArray::new(&rows.into_data());
    let address = std::ptr::from_mut(&mut array) as usize;
    let batch = maker.import_batch.bind(py).call1((address, &maker.schema))?;
    maker.from_batches.bind(py).call1(([batch],))
}

/// The answers of each key as a list of (value, milliseconds).
pub(crate) fn into_lists(answers: &Answers) -> Vec<Vec<(&str, i64)>> {
    let row = |(value, seen_at): (_, SeenAt)| (value, seen_at.millis_i64());
    (0..answers.keys()).map(|position| answers.of(position).map(row).collect()).collect()
}

/// The share of a table to read, by its name in Python.
pub(crate) fn counting(name: &str) -> Counting {
    match name {
        "all" => Counting::All,
        "sample" => Counting::Sample,
        _ => Counting::Metadata,
    }
}

/// A `TableStats` of Python, without its dates.
pub(crate) fn into_stats<'py>(py: Python<'py>, stats: &TableStats) -> PyResult<Bound<'py, PyAny>> {
    let distinct = &stats.distinct;
    let shown = PyDict::new(py);
    shown.set_item("oldest", py.None())?;
    shown.set_item("newest", py.None())?;
    shown.set_item("rows", stats.rows)?;
    shown.set_item("ids", distinct.ids)?;
    shown.set_item("partner_ids", distinct.partner_ids)?;
    shown.set_item("pairs", distinct.pairs)?;
    shown.set_item("is_exact", distinct.is_exact)?;
    shown.set_item("bytes", stats.bytes)?;
    shown.set_item("segments", stats.segments)?;
    shown.set_item("memtable_rows", stats.memtable_rows)?;
    shown.set_item("memtable_bytes", stats.memtable_bytes)?;
    shown.set_item("pending_compaction_bytes", stats.pending_compaction_bytes)?;
    shown.set_item("erasures", stats.erasures)?;
    shown.set_item("largest_key_rows", stats.largest_key_rows)?;
    shown.set_item("expected_rows", stats.expected_rows)?;
    py.import("idmatch._results")?.getattr("TableStats")?.call((), Some(&shown))
}
