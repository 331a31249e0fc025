//! Writes and erases rows, in both directions.
//!
//! Invariant: every write is idempotent and carries the timestamp of its row, so it can be
//! repeated.

pub(crate) mod batch;
pub(crate) mod delete;
pub(crate) mod erase;
pub(crate) mod hot_keys;
mod keys;
pub(crate) mod load;
mod load_progress;
pub(crate) mod session;
pub(crate) mod timestamp;
