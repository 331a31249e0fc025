//! The class `Rows` of Python: rows of a match, of its unmatched rows or of a table, on their way out. An Arrow
//! table, an Arrow C stream (PyCapsule), or a file.
//!
//! Must not know where they come from.

use crate::errors::OrRaise;
use crate::interrupt::{StoppingSink, Watch, interruptible, uninterrupted};
use crate::outputs::{self, Cut};
use crate::process::Own;
use crate::requested::Requested;
use crate::stream::{BatchStream, Send as SendBatch};
use arrow_array::RecordBatchReader;
use arrow_schema::SchemaRef;
use idmatch_store::{Call, CallKind, Calls, MatchSink, Result};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::{PyRecordBatchReader, PySchema, PyTable};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// Fewer rows are read before a check for Ctrl-C would come.
const SHORT_ROWS: u64 = 10_000;

/// Where rows come from. They can be read any number of times.
pub(crate) trait RowSource: Send + Sync {
    /// Their columns.
    fn schema(&self) -> SchemaRef;

    /// How many there are, if that is known before they are read.
    fn count(&self) -> Option<u64>;

    /// Sends all of them.
    fn write(&self, sink: &dyn MatchSink, call: &Call) -> Result<()>;
}

/// Rows on their way out.
#[pyclass(frozen, module = "idmatch._core")]
pub(crate) struct Rows(Own<Measured>);

/// Rows whose writing is measured.
struct Measured {
    source: Box<dyn RowSource>,
    calls: Arc<Calls>,
}

impl Rows {
    pub(crate) fn new(source: impl RowSource + 'static, calls: &Arc<Calls>) -> Rows {
        Rows(Own::new(Measured { source: Box::new(source), calls: Arc::clone(calls) }))
    }
}

impl RowSource for Measured {
    fn schema(&self) -> SchemaRef {
        self.source.schema()
    }

    fn count(&self) -> Option<u64> {
        self.source.count()
    }

    fn write(&self, sink: &dyn MatchSink, call: &Call) -> Result<()> {
        self.calls.measure(CallKind::Write, || self.source.write(sink, call))
    }
}

/// Sends all rows, unless the call ends before; returns how many.
fn write_to(rows: &dyn RowSource, sink: &dyn MatchSink, call: &Call) -> Result<u64> {
    let sink = StoppingSink { sink, call, rows: AtomicU64::new(0) };
    rows.write(&sink, call)?;
    Ok(sink.rows.into_inner())
}

#[pymethods]
impl Rows {
    /// How many there are; none where that is not known yet.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.0.get(py)?.count())
    }

    /// All of them as one table.
    fn to_arrow<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.0.get(py)?;
        let collect = |call: &Call| {
            let batches = Mutex::new(Vec::new());
            let take = |batch| {
                batches.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
                Ok(())
            };
            write_to(rows.as_ref(), &take, call)?;
            Ok(batches.into_inner().unwrap_or_else(PoisonError::into_inner))
        };
        let batches: Result<_> = if rows.count().is_some_and(|rows| rows < SHORT_ROWS) {
            uninterrupted(py, || collect(&Call::default()))?
        } else {
            interruptible(py, |watch| collect(&watch.call()))?
        };
        PyTable::try_new(batches.or_raise(py)?, rows.schema())?.into_pyarrow(py)
    }

    /// Writes them to a file or a FIFO that exists; returns how many.
    fn write(
        &self,
        py: Python<'_>,
        path: PathBuf,
        format: &str,
        compression: &str,
    ) -> PyResult<u64> {
        let rows = self.0.get(py)?;
        let format = outputs::Format::of(format, compression).or_raise(py)?;
        interruptible(py, |watch: &Watch| {
            let (call, mut written) = (watch.call(), 0);
            let send = |sink: &dyn MatchSink| {
                written = write_to(rows.as_ref(), sink, &call)?;
                Ok(())
            };
            outputs::write(&path, format, &rows.schema(), &call, send)?;
            Ok(written)
        })?
        .or_raise(py)
    }

    /// Writes them to files of an empty folder, at most `max_rows` each, by the values of a column; returns how
    /// many.
    #[allow(clippy::too_many_arguments, reason = "Python names them")]
    #[pyo3(signature = (path, format, compression, ending, by, max_rows))]
    fn write_folder(
        &self,
        py: Python<'_>,
        path: PathBuf,
        format: &str,
        compression: &str,
        ending: String,
        by: Option<String>,
        max_rows: Option<usize>,
    ) -> PyResult<u64> {
        let rows = self.0.get(py)?;
        let format = outputs::Format::of(format, compression).or_raise(py)?;
        let cut = Cut { by, max_rows: max_rows.unwrap_or(usize::MAX), ending };
        interruptible(py, |watch: &Watch| {
            let (call, mut written) = (watch.call(), 0);
            let send = |sink: &dyn MatchSink| {
                written = write_to(rows.as_ref(), sink, &call)?;
                Ok(())
            };
            outputs::write_folder(&path, format, &cut, &rows.schema(), &call, send)?;
            Ok(written)
        })?
        .or_raise(py)
    }

    /// The rows as an Arrow stream, with the types that are requested; a value that has no place there ends the
    /// stream with an error.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let source = Arc::clone(self.0.get(py)?);
        let write =
            move |send: &SendBatch<'_>| source.write(&|batch| send(batch), &Call::default());
        let stream = BatchStream::start(self.0.get(py)?.schema(), write).or_raise(py)?;
        let stream: Box<dyn RecordBatchReader + Send> = match &requested_schema {
            Some(schema) => {
                let schema = PySchema::from_arrow_pycapsule(schema)?.into_inner();
                Box::new(Requested::new(stream, schema).or_raise(py)?)
            }
            None => Box::new(stream),
        };
        Bound::new(py, PyRecordBatchReader::new(stream))?.call_method0("__arrow_c_stream__")
    }
}
