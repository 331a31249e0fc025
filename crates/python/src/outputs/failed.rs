//! Errors of outputs.

use arrow_schema::ArrowError;
use idmatch_store::{Error, ErrorKind};
use std::io;

/// The error of a file that cannot be written.
pub(super) fn file_failed(e: io::Error) -> Error {
    Error::with_source(ErrorKind::Io, "cannot write the output", e)
}

/// The error of rows that cannot be encoded, or of the file that takes them.
pub(super) fn encoding_failed(e: ArrowError) -> Error {
    match e {
        ArrowError::IoError(_, e) => file_failed(e),
        e => {
            let text = "the format of the output cannot hold these columns; write Parquet";
            Error::with_source(ErrorKind::InvalidArgument, text, e)
        }
    }
}
