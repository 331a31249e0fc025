//! The embedded backend of idmatch: match tables in a folder.
//!
//! Data flows down: `store` (what is published, who may write) uses `load` to make segments,
//! `lookup` for questions by one key and `matching` for populations; all three read and
//! write `segment`s, whose bytes go through `disk`. `packed` and `part` are what they share:
//! identifiers in few bytes, and the division of the hash space.
//!
//! Must not know Python, files of users (Parquet, CSV) or any other backend.
#![deny(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod catalog;
mod compaction;
mod cpu;
mod encoding;
mod erase;
mod erasures;
mod hash_partition;
mod journal;
mod load;
mod lookup;
mod matching;
mod memtable;
mod options;
mod recovery;
mod scan;
mod segment;
mod store;
mod sync;
mod verify;
mod versions;
mod write;
mod writer_lock;

pub mod disk;
#[doc(hidden)]
pub mod fuzzing;

pub use options::MemoryLimits;
pub use store::EngineStore;
