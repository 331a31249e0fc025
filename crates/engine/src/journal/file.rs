//! The names of journal files.

use std::path::{Path, PathBuf};

/// The file with this number.
pub(crate) fn file(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:010}.log"))
}

/// The number of a file of this name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    (digits.len() == 10).then(|| digits.parse().ok())?
}
