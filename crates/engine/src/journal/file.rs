//! The journal: what was acknowledged and is in no segment yet.
//!
//! Numbered files, only ever appended to. The rows of one commit are one [`record`]; what is read of
//! a file ends before the first record that is not whole. Whether that is a write that was
//! under way when the process or the machine stopped, or damage to something that had been
//! made durable, is told by the records after it: each says how far its file was durable
//! when it was written. `spec/format/journal.md` has every byte.
//!
//! Must not know memtables, or when a commit is visible.

mod read;
mod record;
mod write;

pub(crate) use read::scan;
pub(crate) use read::{Progress, Salvaged, check_end, read};
pub(crate) use record::{Entries, encode_batch};
pub(crate) use record::{header, record};
pub(crate) use write::{Appended, JournalWriter};

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
