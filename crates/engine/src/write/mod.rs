//! Upserts: from batches to the journal and the memtables, and from there to segments.
//!
//! [`GroupCommit`] gathers the batches of threads, [`WritePath`] makes them durable and visible, [`Flusher`]
//! writes full memtables as segments in the background. Must not know how segments are read.
//! Write stalls are in `compaction::stall`, but for the wait for full memtables, in `write_path`.

mod flush;
mod group_commit;
mod journal_writer;
mod write_path;

pub(crate) use flush::Flusher;
pub(crate) use group_commit::{Batch, GroupCommit, PendingCommit};
pub(crate) use write_path::WritePath;
