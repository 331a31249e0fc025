//! Errors of file operations, and of damaged files.

use idmatch_store::{Error, ErrorFields, ErrorKind};
use std::io;
use std::path::Path;

/// An operation on a file failed.
pub(crate) fn io_error(doing: &str, path: &Path, e: io::Error) -> Error {
    let advice = match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and try again, the store is as it was"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; check the permissions of the store's folder"
        }
        _ => "",
    };
    Error::with_source(ErrorKind::Io, format!("cannot {doing} {}{advice}", path.display()), e)
}

/// Stored bytes are damaged.
pub(crate) fn corrupt(path: &Path, offset: usize, what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "{}, offset {offset}: {what}; `verify --repair` may repair it, else restore the store from a backup",
            path.display()
        ),
    )
    .with_fields(place(path, Some(offset)))
}

/// The fields of an error of a damaged file.
pub(crate) fn place(path: &Path, offset: Option<usize>) -> ErrorFields {
    let file = path.display().to_string();
    ErrorFields::Corrupt { file, offset: offset.map(|offset| offset as u64) }
}

/// A file has a format that this version does not read. There is no upgrade of formats before the first
/// release.
pub(crate) fn other_format(path: &Path, what: &str, there: u32, ours: u32) -> Error {
    let advice = match there < ours {
        true => "it was written before the first release; load the data again into a new store",
        false => "use the version of idmatch that wrote it, or a later one",
    };
    Error::new(
        ErrorKind::UnsupportedFormat,
        format!(
            "{} has {what} format {there}, this version reads format {ours}; {advice}",
            path.display()
        ),
    )
}
