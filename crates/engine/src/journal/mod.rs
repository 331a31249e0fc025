//! The journal: acknowledged rows that are in no segment yet.
//!
//! Numbered files, only ever appended to. The rows of one commit are one record. A reader stops before the
//! first record that is not whole. That record is either a write that was interrupted, or damage to something
//! durable; the later records tell, since each says how far its file was durable before it was written.
//! `spec/format/journal.md` has every byte.
//!
//! Must not know memtables, or when a commit is visible.

mod file;
mod read;
mod record;
mod write;

pub(crate) use file::{file, number_of};
pub(crate) use read::{Part, Progress, ReadableRecords, check_end, read, scan};
pub(crate) use record::{Entries, FileHeader, encode_batch, record};
pub(crate) use write::{Appended, JournalWriter};
