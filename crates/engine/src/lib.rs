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

mod bytes;
mod compact;
mod erasures;
mod errors;
mod journal;
mod limits;
mod load;
mod lookup;
mod matching;
mod memtable;
mod names;
mod packed;
mod part;
mod record;
mod rows;
mod segment;
mod store;
mod workers;

pub mod disk;
#[doc(hidden)]
pub mod fuzzing;

pub use limits::MemoryLimits;
pub use store::EngineStore;
