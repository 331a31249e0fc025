//! Sources of batches: Python iterables of Arrow C streams (PyCapsules), on their way into a store.

use crate::errors::{OrRaise, raise};
use crate::interrupt::not_stopped;
use crate::process::{attached, foreign};
use crate::raised::Raised;
use arrow_array::{RecordBatch, RecordBatchReader};
use idmatch_model::DateRules;
use idmatch_store::{BatchSource, Error, ErrorKind, Reject, RejectSink, Result, SourceBatch};
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use pyo3_arrow::PyRecordBatchReader;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A format of dates, and the zone of local times.
pub(crate) type GivenDates = (Option<String>, Option<String>);

/// The rules that a caller has given for dates.
pub(crate) fn date_rules((format, zone): GivenDates) -> Result<DateRules> {
    Ok(DateRules::new(format.as_deref(), zone.as_deref())?)
}

/// The result, or the exception of Python code that made it fail. `UnknownOutcome` takes
/// precedence, since some rows may be stored: it is raised with that exception as its cause.
pub(crate) fn finish<T>(py: Python<'_>, result: Result<T>, raised: &Raised) -> PyResult<T> {
    match (raised.take(), &result) {
        (Some(exception), Err(e)) if e.kind() == ErrorKind::UnknownOutcome => {
            let unknown = raise(py, e);
            unknown.set_cause(py, Some(exception));
            Err(unknown)
        }
        (Some(exception), _) => Err(exception),
        (None, _) => result.or_raise(py),
    }
}

/// Reads the streams of an iterable of (name, stream) one after another.
pub(crate) struct PySource<'a> {
    iterator: Py<PyIterator>,
    raised: Raised,
    stop: &'a AtomicBool,
    open: Option<OpenStream>,
}

struct OpenStream {
    name: Arc<str>,
    reader: Box<dyn RecordBatchReader + Send>,
    next_row: u64,
}

impl<'a> PySource<'a> {
    pub(crate) fn new(
        iterator: Py<PyIterator>,
        raised: Raised,
        stop: &'a AtomicBool,
    ) -> PySource<'a> {
        PySource { iterator, raised, stop, open: None }
    }

    fn next_stream(&self) -> PyResult<Option<OpenStream>> {
        attached(|py| {
            let Some(item) = self.iterator.bind(py).clone().next() else { return Ok(None) };
            let (name, stream): (String, Bound<'_, PyAny>) = item?.extract()?;
            let reader = stream.extract::<PyRecordBatchReader>()?.into_reader()?;
            Ok(Some(OpenStream { name: name.into(), reader, next_row: 1 }))
        })
    }
}

impl PySource<'_> {
    /// Ends the stream: pyarrow takes the GIL to free it.
    fn close(&mut self) {
        foreign(|| self.open = None);
    }
}

impl Drop for PySource<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

impl BatchSource for PySource<'_> {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        loop {
            not_stopped(self.stop)?;
            if self.open.is_none() {
                self.open = self.next_stream().map_err(|e| self.raised.keep(e))?;
            }
            let Some(stream) = &mut self.open else { return Ok(None) };
            match foreign(|| stream.reader.next()) {
                Some(Ok(batch)) => {
                    let first_row = stream.next_row;
                    stream.next_row += batch.num_rows() as u64;
                    return Ok(Some(SourceBatch { source: stream.name.clone(), first_row, batch }));
                }
                Some(Err(e)) => {
                    let what = format!("cannot read {}", stream.name);
                    return Err(Error::with_source(ErrorKind::Source, what, e));
                }
                None => {
                    // A source without rows still tells its columns.
                    let empty = (stream.next_row == 1).then(|| SourceBatch {
                        source: stream.name.clone(),
                        first_row: 1,
                        batch: RecordBatch::new_empty(stream.reader.schema()),
                    });
                    self.close();
                    if empty.is_some() {
                        return Ok(empty);
                    }
                }
            }
        }
    }
}

/// The batches of a short source, in memory.
pub(crate) struct ReadSource(VecDeque<SourceBatch>);

impl ReadSource {
    /// Reads all batches of a source.
    pub(crate) fn read(source: &mut dyn BatchSource) -> Result<ReadSource> {
        let mut batches = VecDeque::new();
        while let Some(batch) = source.next_batch()? {
            batches.push_back(batch);
        }
        Ok(ReadSource(batches))
    }
}

impl BatchSource for ReadSource {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        Ok(self.0.pop_front())
    }
}

/// Gives rejected rows to a Python callable.
pub(crate) struct PyRejects {
    callable: Py<PyAny>,
    raised: Raised,
}

impl PyRejects {
    pub(crate) fn new(callable: Py<PyAny>, raised: Raised) -> PyRejects {
        PyRejects { callable, raised }
    }
}

impl RejectSink for PyRejects {
    fn reject(&mut self, rejects: Vec<Reject>) -> Result<()> {
        let rows: Vec<(String, u64, &str, String)> = rejects
            .into_iter()
            .map(|reject| (reject.source.to_string(), reject.row, reject.column, reject.reason))
            .collect();
        attached(|py| self.callable.call1(py, (rows,))).map(drop).map_err(|e| self.raised.keep(e))
    }
}
