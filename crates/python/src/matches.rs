//! Results of matches, for Python: their counts, Arrow C streams of their rows (PyCapsules), and Parquet
//! files.

use crate::errors::OrRaise;
use crate::interrupt::{interruptible, not_stopped, uninterrupted};
use crate::parquet;
use crate::stream::{self, BatchStream};
use idmatch_model::Side;
use idmatch_store::{Result, match_schema};
use pyo3::prelude::*;
use pyo3_arrow::{PyRecordBatchReader, PyTable};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// Fewer rows are read before a check for Ctrl-C would come.
const SHORT_MATCH_ROWS: u64 = 10_000;

/// A matched population.
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

    /// The steps that read the population, as (how, requests, keys, why).
    #[getter]
    fn plan(&self) -> Vec<(&'static str, u64, u64, String)> {
        let steps = self.matched.plan().into_iter();
        steps.map(|step| (step.how, step.requests, step.keys, step.why)).collect()
    }

    /// All matches as one table.
    fn to_arrow<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let collect = |stop: &AtomicBool| {
            let batches = Mutex::new(Vec::new());
            let take = |batch| {
                not_stopped(stop)?;
                batches.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
                Ok(())
            };
            self.matched.write(&take)?;
            Ok(batches.into_inner().unwrap_or_else(PoisonError::into_inner))
        };
        let batches: Result<_> = if self.matched.counts().rows < SHORT_MATCH_ROWS {
            uninterrupted(py, collect)
        } else {
            interruptible(py, |stop| collect(stop))?
        };
        PyTable::try_new(batches.or_raise(py)?, match_schema(self.by))?.into_pyarrow(py)
    }

    /// Writes the matches as Parquet to a file or a FIFO that exists.
    fn write_parquet(&self, py: Python<'_>, path: PathBuf, compression: &str) -> PyResult<()> {
        let compression = parquet::compression(compression).or_raise(py)?;
        let write = |stop: &AtomicBool| {
            parquet::write(self.matched.as_ref(), self.by, &path, compression, stop)
        };
        interruptible(py, |stop| write(stop))?.or_raise(py)
    }

    /// The matches as an Arrow stream.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let matched = self.matched.clone();
        let write = move |send: &stream::Send<'_>| matched.write(&|batch| send(batch));
        let stream = BatchStream::start(match_schema(self.by), write).or_raise(py)?;
        let reader = Bound::new(py, PyRecordBatchReader::new(Box::new(stream)))?;
        reader.call_method1("__arrow_c_stream__", (requested_schema,))
    }
}
