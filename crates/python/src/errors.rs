//! Errors of the stores as exceptions of `idmatch._errors`.

use idmatch_model::SeenAt;
use idmatch_store::{Error, ErrorFields, ErrorKind};
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
        ErrorKind::Cancelled => "Cancelled",
        ErrorKind::Unsupported => "Unsupported",
        ErrorKind::RetryLater => "RetryLater",
        ErrorKind::Expired => "Expired",
        ErrorKind::Internal => "Internal",
    }
}

/// The exception for an error.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let exception = || -> PyResult<PyErr> {
        let module = py.import("idmatch._errors")?;
        let class = module.getattr(class(error.kind()))?.cast_into::<PyType>()?;
        let exception = class.call1((error.chain(),))?;
        if let Some(fields) = error.fields() {
            set_fields(&exception, fields)?;
        }
        Ok(PyErr::from_value(exception))
    };
    exception().unwrap_or_else(|e| e)
}

/// Sets the values of an error as attributes of its exception.
fn set_fields(exception: &Bound<'_, PyAny>, fields: &ErrorFields) -> PyResult<()> {
    match fields {
        ErrorFields::Busy { pid, program, since } => {
            exception.setattr("pid", pid)?;
            exception.setattr("program", program)?;
            exception.setattr("since_millis", since.map(SeenAt::millis_i64))
        }
        ErrorFields::UnknownOutcome { rows } => {
            let rows: Vec<(&str, u64, u64)> = rows
                .runs()
                .iter()
                .map(|run| (run.source.as_ref(), run.rows.start, run.rows.end))
                .collect();
            exception.setattr("rows", rows)
        }
        ErrorFields::Corrupt { file, offset } => {
            exception.setattr("file", file)?;
            exception.setattr("offset", offset)
        }
        ErrorFields::BadInput { source, row, column, reason } => {
            exception.setattr("source", source)?;
            exception.setattr("row", row)?;
            exception.setattr("column", column)?;
            exception.setattr("reason", reason)
        }
        ErrorFields::Unsupported { instead } => exception.setattr("instead", instead),
        ErrorFields::RetryLater { after } => exception.setattr("after", after.as_secs_f64()),
    }
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
