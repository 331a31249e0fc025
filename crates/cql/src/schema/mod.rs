//! Everything that the servers hold besides rows: the keyspace, the catalog of tables, and the
//! metadata that this process caches.
//!
//! Must not know how rows are read or written.

pub(crate) mod bucket;
pub(crate) mod catalog;
pub(crate) mod hot_keys;
pub(crate) mod keyspace;
pub(crate) mod metadata_cache;
pub(crate) mod statements;
pub(crate) mod tombstones;
