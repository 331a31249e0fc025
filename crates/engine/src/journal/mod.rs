//! The journal: what was acknowledged and is in no segment yet.
//!
//! Numbered files, only ever appended to. The rows of one commit are one [`record`]; what is read of
//! a file ends before the first record that is not whole. Whether that is a write that was
//! under way when the process or the machine stopped, or damage to something that had been
//! made durable, is told by the records after it: each says how far its file was durable
//! when it was written. `spec/format/journal.md` has every byte.
//!
//! Must not know memtables, or when a commit is visible.

mod file;
mod read;
mod record;
mod write;

pub(crate) use file::{file, number_of};
pub(crate) use read::{Progress, ReadableRecords, check_end, read, scan};
pub(crate) use record::{Entries, encode_batch, header, record};
pub(crate) use write::{Appended, JournalWriter};
