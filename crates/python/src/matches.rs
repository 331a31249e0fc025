//! Matched populations.

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use idmatch_model::Side;
use idmatch_store::{Error, ErrorKind, MatchSink, Result, match_schema};
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatchReader;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Batches that may wait to be read: what bounds the memory of a stream.
const WAITING_BATCHES: usize = 4;

/// A population that has been matched.
#[pyclass(frozen, module = "idmatch._core")]
pub(crate) struct Match {
    matched: Arc<dyn idmatch_store::Match>,
    by: Side,
}

impl Match {
    pub(crate) fn new(matched: Arc<dyn idmatch_store::Match>, by: Side) -> Match {
        Match { matched, by }
    }
}

#[pymethods]
impl Match {
    #[getter]
    fn population(&self) -> u64 {
        self.matched.counts().population
    }

    #[getter]
    fn matched(&self) -> u64 {
        self.matched.counts().matched
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.matched.counts().rows
    }

    /// The matches, streamed.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let stream = MatchStream::start(self.matched.clone(), self.by);
        let reader = Bound::new(py, PyRecordBatchReader::new(Box::new(stream)))?;
        reader.call_method1("__arrow_c_stream__", (requested_schema,))
    }
}

/// Reads what a thread of its own writes. Dropping it ends the thread.
struct MatchStream {
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch>>,
}

impl MatchStream {
    fn start(matched: Arc<dyn idmatch_store::Match>, by: Side) -> MatchStream {
        let (sender, batches) = sync_channel(WAITING_BATCHES);
        std::thread::spawn(move || {
            let mut sink = ChannelSink(sender);
            if let Err(e) = matched.write(&mut sink) {
                // Where the reader is gone, nobody is left to be told.
                sink.0.send(Err(e)).ok();
            }
        });
        MatchStream { schema: match_schema(by), batches }
    }
}

struct ChannelSink(SyncSender<Result<RecordBatch>>);

impl MatchSink for ChannelSink {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.0
            .send(Ok(batch))
            .map_err(|_| Error::new(ErrorKind::InvalidArgument, "the reader of a match is gone"))
    }
}

impl Iterator for MatchStream {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.batches.recv().ok()?;
        Some(next.map_err(|e| ArrowError::ExternalError(Box::new(e))))
    }
}

impl RecordBatchReader for MatchStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
