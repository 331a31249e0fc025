//! Reads rows: single rows, the rows of a key, and whole directions of a table.
//!
//! Must not write to the servers.

pub(crate) mod export;
pub(crate) mod hot_key;
pub(crate) mod lookup;
pub(crate) mod row;
pub(crate) mod row_buffer;
pub(crate) mod scan;
pub(crate) mod statistics;
