//! The journal: acknowledged rows that are in no segment yet.
//!
//! Numbered files, only ever appended to. The rows of one commit are one record. A reader stops before the
//! first record that is not whole. That record is either an interrupted write, or damage to durable bytes.
//! Later records show which of the two it is: each says up to where its file was durable before it was
//! written. `spec/format/journal.md` has every byte.
//!
//! Must not know memtables, or when a commit is visible.

mod file;
mod read;
mod record;
mod write;

pub(crate) use file::{file, number_of};
pub(crate) use read::{JournalItem, ReadOutcome, ReadableRecords, check_end, read, scan};
pub(crate) use record::{Entries, FileHeader, encode_batch, record};
pub(crate) use write::{Appended, JournalWriter};
