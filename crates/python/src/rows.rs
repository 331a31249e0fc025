//! The Python class `Rows`: gives rows as an Arrow table, as an Arrow C stream (`__arrow_c_stream__`, over
//! `stream`) or as files (`outputs`). The rows are those of a match, its unmatched rows, or those of a
//! table.
//!
//! Must not know the origin of rows. Invariant: they can be read any number of times.

use crate::errors::OrRaise;
use crate::interrupt::{StoppingSink, Watch, interruptible, uninterrupted};
use crate::outputs::{self, FolderOptions};
use crate::process::Own;
use crate::requested::Requested;
use crate::stream::{BatchStream, Send as SendBatch};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;
use idmatch_store::locks::Mutex;
use idmatch_store::{Call, CallKind, Calls, Error, ErrorKind, MatchSink, Result, Timings};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::{PyRecordBatchReader, PySchema, PyTable};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// A source of rows. They can be read any number of times.
pub(crate) trait RowSource: Send + Sync {
    /// The columns of the rows.
    fn schema(&self) -> SchemaRef;

    /// The number of rows, if it is known before they are read.
    fn count(&self) -> Option<u64>;

    /// Whether all rows are read before a check for Ctrl-C would come.
    fn is_short(&self) -> bool {
        false
    }

    /// Sends all rows.
    fn write(&self, sink: &dyn MatchSink, call: &Call) -> Result<()>;
}

/// Rows on their way out.
#[pyclass(frozen, module = "idmatch._core")]
pub(crate) struct Rows(Own<Measured>);

/// Rows whose writing is measured, from its begin to the last byte of its output.
struct Measured {
    source: Box<dyn RowSource>,
    calls: Arc<Calls>,
    /// The timings of the match that the rows belong to. Other rows have timings that are never read.
    timings: Arc<Timings>,
}

impl Rows {
    pub(crate) fn new(source: impl RowSource + 'static, calls: &Arc<Calls>) -> Rows {
        Rows::timed(source, calls, &Arc::default())
    }

    /// Rows whose writing adds to these timings.
    pub(crate) fn timed(
        source: impl RowSource + 'static,
        calls: &Arc<Calls>,
        timings: &Arc<Timings>,
    ) -> Rows {
        let (calls, timings) = (Arc::clone(calls), Arc::clone(timings));
        Rows(Own::new(Measured { source: Box::new(source), calls, timings }))
    }
}

impl Measured {
    fn measure<T>(&self, write: impl FnOnce() -> Result<T>) -> Result<T> {
        self.calls.measure(CallKind::Write, || self.timings.run(write))
    }

    /// Gives an output all rows, unless the call of the watch ends before; returns their number.
    fn write(
        &self,
        watch: &Watch,
        output: impl FnOnce(&Call, &mut SendRows<'_>) -> Result<()>,
    ) -> Result<u64> {
        let (call, mut written) = (watch.call().timed(&self.timings), 0);
        let mut send = |sink: &dyn MatchSink| {
            let sink = StoppingSink { sink, call: &call, rows: AtomicU64::new(0) };
            self.source.write(&sink, &call)?;
            written = sink.rows.into_inner();
            Ok(())
        };
        self.measure(|| output(&call, &mut send))?;
        Ok(written)
    }
}

/// Sends all rows to a sink.
type SendRows<'a> = dyn FnMut(&dyn MatchSink) -> Result<()> + 'a;

#[pymethods]
impl Rows {
    /// The number of rows; `None` where it is not known yet.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.0.get(py)?.source.count())
    }

    /// All rows as one table.
    fn to_arrow<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.0.get(py)?;
        let batches = Mutex::new(Vec::new());
        let take = |batch| {
            batches.lock().push(batch);
            Ok(())
        };
        if rows.source.is_short() {
            let collect = || rows.measure(|| rows.source.write(&take, &Call::default()));
            uninterrupted(py, collect)?.or_raise(py)?;
        } else {
            interruptible(py, |watch| rows.write(watch, |_, send| send(&take)))?.or_raise(py)?;
        }
        let batches = batches.into_inner();
        PyTable::try_new(batches, rows.source.schema())?.into_pyarrow(py)
    }

    /// The first rows that come, as one table: `most` rows, unless there are fewer.
    fn head<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.0.get(py)?;
        let first = Mutex::new((Vec::new(), most));
        let take = |batch: RecordBatch, call: &Call| {
            call.check()?;
            let mut first = first.lock();
            let (batches, left) = &mut *first;
            let taken = batch.num_rows().min(*left);
            batches.push(batch.slice(0, taken));
            *left -= taken;
            match *left {
                0 => Err(Error::new(ErrorKind::Cancelled, "enough rows were read")),
                _ => Ok(()),
            }
        };
        let read = |watch: &Watch| {
            let call = watch.call().timed(&rows.timings);
            rows.measure(|| {
                let done = rows.source.write(&|batch| take(batch, &call), &call);
                match first.lock().1 {
                    0 => Ok(()),
                    _ => done,
                }
            })
        };
        if most > 0 {
            interruptible(py, read)?.or_raise(py)?;
        }
        let (batches, _) = first.into_inner();
        PyTable::try_new(batches, rows.source.schema())?.into_pyarrow(py)
    }

    /// Writes the rows to a file or a FIFO that exists; returns their number.
    fn write(
        &self,
        py: Python<'_>,
        path: PathBuf,
        format: &str,
        compression: &str,
    ) -> PyResult<u64> {
        let rows = self.0.get(py)?;
        let format = outputs::Format::of(format, compression).or_raise(py)?;
        let schema = rows.source.schema();
        interruptible(py, |watch| {
            rows.write(watch, |call, send| outputs::write(&path, format, &schema, call, send))
        })?
        .or_raise(py)
    }

    /// Writes the rows to files of an empty folder, at most `max_rows` each, by the values of a column;
    /// returns their number.
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
        let options = FolderOptions { by, max_rows: max_rows.unwrap_or(usize::MAX), ending };
        let schema = rows.source.schema();
        interruptible(py, |watch| {
            rows.write(watch, |call, send| {
                outputs::write_folder(&path, format, &options, &schema, call, send)
            })
        })?
        .or_raise(py)
    }

    /// Adds the time in which an output was completed: to sync it, to send it and to give it its name.
    fn add_writing(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        self.0.get(py)?.timings.add_single_threaded(time);
        Ok(())
    }

    /// The rows as an Arrow stream, with the types that are requested; a value that does not fit into its
    /// type ends the stream with an error.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let source = Arc::clone(self.0.get(py)?);
        let write = move |send: &SendBatch<'_>| {
            source.measure(|| source.source.write(&|batch| send(batch), &Call::default()))
        };
        let stream = BatchStream::start(self.0.get(py)?.source.schema(), write).or_raise(py)?;
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
