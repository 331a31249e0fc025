//! The embedded backend of idmatch: match tables in a folder.
//!
//! Layers, from the top; each imports only layers below it:
//! - `store`: the public store and its tables, which delegate.
//! - `catalog`: creates, renames and drops tables, with `erase` and `write`.
//! - `recovery`, `load`, `erase`, `write`: the operations that change rows.
//! - `compaction`: fewer and larger segments. `writer_lock`: who may write.
//! - `matching`, `lookup`, `scan`, `verify`: the reads.
//! - `versions`: the manifest and the immutable versions that readers hold.
//! - `memtable`, `journal`, `segment`, `tombstones`: where rows are kept.
//! - `encoding`, `hash_partition`, `disk`, `spill_file`, `background`, `metrics`, `cpu`, `sync`, `options`: bytes, files,
//!   failures, threads and locks.
//!
//! Must not know Python, files of users (Parquet, CSV) or any other backend.
#![deny(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod background;
mod catalog;
mod compaction;
mod cpu;
mod encoding;
mod erase;
mod file_name;
mod hash_partition;
mod identity;
mod journal;
mod load;
mod lookup;
mod matching;
mod memtable;
mod metrics;
mod options;
mod recovery;
mod scan;
mod segment;
mod spill_file;
mod store;
mod sync;
mod tombstones;
mod verify;
mod versions;
mod write;
mod writer_lock;

pub mod disk;
#[doc(hidden)]
pub mod fuzzing;

pub use options::MemoryLimits;
pub use store::EngineStore;
pub use versions::name_process;
