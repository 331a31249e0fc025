//! The names of journal files.

use crate::file_name::{file_name, file_number};
use std::path::{Path, PathBuf};

/// The file with this number.
pub(crate) fn file(folder: &Path, number: u64) -> PathBuf {
    folder.join(file_name(number, "log"))
}

/// The number of a file of this name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    file_number(name, "log")
}
