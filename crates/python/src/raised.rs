//! An exception of Python code on its way through work that knows no Python.

use idmatch_store::locks::Mutex;
use idmatch_store::{Error, ErrorKind};
use pyo3::PyErr;
use std::sync::Arc;

/// Keeps an exception of Python code until it can be raised.
#[derive(Clone, Default)]
pub(crate) struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    pub(crate) fn keep(&self, error: PyErr) -> Error {
        *self.0.lock() = Some(error);
        Error::new(ErrorKind::Source, "the caller raised an exception")
    }

    /// The exception, if there was one.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().take()
    }
}
