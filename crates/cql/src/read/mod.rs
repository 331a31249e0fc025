//! Reads rows: single rows, the rows of a key, and whole directions of a table.
//!
//! Must not write to the servers.

pub(crate) mod export;
pub(crate) mod lookup;
pub(crate) mod row;
pub(crate) mod scan;
pub(crate) mod shard_merge;
pub(crate) mod statistics;
