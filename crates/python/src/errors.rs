//! Errors of the stores as exceptions of `idmatch._errors`.

use idmatch_store::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The name of the exception class for a kind of error.
fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidArgument => "InvalidArgument",
        ErrorKind::BadInput => "BadInput",
        ErrorKind::TableNotFound => "TableNotFound",
        ErrorKind::TableExists => "TableExists",
        ErrorKind::NotAStore => "NotAStore",
        ErrorKind::Busy => "Busy",
        ErrorKind::UnsupportedFormat => "UnsupportedFormat",
        ErrorKind::Corrupt => "Corrupt",
        ErrorKind::Io => "IoError",
        ErrorKind::Source => "SourceError",
        ErrorKind::Unavailable => "Unavailable",
        ErrorKind::UnknownOutcome => "UnknownOutcome",
        ErrorKind::Differs => "Differs",
    }
}

/// The exception for an error.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let exception = || -> PyResult<PyErr> {
        let module = py.import("idmatch._errors")?;
        let class = module.getattr(class(error.kind()))?.cast_into::<PyType>()?;
        Ok(PyErr::from_type(class, error.chain()))
    };
    exception().unwrap_or_else(|e| e)
}

/// The exception for the use of a closed store.
pub(crate) fn closed(py: Python<'_>, path: &str) -> PyErr {
    let text = format!("the store {path} is closed; open it again");
    raise(py, &Error::new(ErrorKind::InvalidArgument, text))
}

/// `?` for results of the stores.
pub(crate) trait OrRaise<T> {
    /// The value, or the error as an exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Error>> OrRaise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|e| raise(py, &e.into()))
    }
}
