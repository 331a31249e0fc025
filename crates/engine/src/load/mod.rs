//! Bulk load: from batches to published segments, without the journal.
//!
//! 1. `partition`: threads pull batches of judged rows and pack these. Every row goes into two hash
//!    partitions: that of its id, and that of its partner_id.
//! 2. `spill`: full buffers go to spill files, one for 16 partitions.
//! 3. `pipeline`: threads take partitions, sort their rows in memory and write segments.
//!
//! A `staged_write` does the first two for each part of a session, and the third at its commit. All its files
//! are in the folder of scratch files (`staging`). Of a shared session, each part is a file (`part_file`),
//! and the process that commits reads all into one part of its own (`shared_write`). The [`BulkLoader`] then
//! moves the segments to the folder of the store's segments, and publishes them in one change of the
//! manifest. Memory is bounded by [`crate::options::MemoryLimits`]. A partition that exceeds the sort memory
//! becomes several segments of the same hashes, which readers merge. Must not know how rows are read.

mod bulk_loader;
mod part_file;
mod partition;
mod pipeline;
mod shared_commit;
mod shared_write;
mod spill;
mod staged_write;
mod staging;

pub(crate) use bulk_loader::{Begun, BulkLoader};
pub(crate) use part_file::{PartFile, PartOwner, PartReader, sealed as sealed_part};
pub(crate) use partition::Partitioner;
pub(crate) use pipeline::{LoadPlace, load};
pub(crate) use shared_write::SharedWrite;
pub(crate) use staged_write::StagedWrite;
pub(crate) use staging::StagingFiles;
