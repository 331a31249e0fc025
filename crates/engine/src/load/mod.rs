//! Bulk load: from batches to published segments, without the journal.
//!
//! 1. [`partition`]: threads pull batches, judge and pack the rows, and put every row into
//!    the buffers of two parts of the hash space: its id's and its partner_id's.
//! 2. [`spill`]: buffers that fill up go to temporary files, one for 16 parts.
//! 3. [`load`]: threads take parts, sort their rows in memory and write segments.
//!
//! Nothing is visible before the caller publishes the segments in the manifest. Memory is
//! bounded by [`crate::options::MemoryLimits`]; where a part is larger than what is sorted at once (one key with
//! a hundred million rows, say) it becomes several segments of the same hashes, which readers
//! merge.

mod bulk_loader;
mod load;
mod partition;
mod spill;

pub(crate) use bulk_loader::BulkLoader;
pub(crate) use load::{LoadPlace, load};
