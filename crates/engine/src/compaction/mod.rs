//! Compaction: fewer and larger segments, without hidden rows.
//!
//! [`strategy`] chooses segments of one range of hashes, as a pure function. [`run`] writes their rows into
//! new segments: each pair or observation once, and none older than the table's retention. The [`Compactor`]
//! decides when, and publishes; `stall` slows upserts down while compactions are behind. A compaction is
//! about one range, so it needs little spare disk and memory. Must not know the journal and memtables.

mod compactor;
mod run;
mod segment_stats;
mod stall;
mod strategy;

pub(crate) use compactor::Compactor;
pub(crate) use segment_stats::pending_bytes;
