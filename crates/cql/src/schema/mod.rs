//! Everything that the servers hold besides rows: the keyspace, the catalog of tables, and the
//! metadata that this process caches.
//!
//! Must not know how rows are read or written.

pub(crate) mod bucket;
pub(crate) mod cached;
pub(crate) mod catalog;
pub(crate) mod definition;
pub(crate) mod hot_keys;
pub(crate) mod keyspace;

pub(crate) mod log;
pub(crate) mod metadata_cache;
pub(crate) mod names;
pub(crate) mod statements;
pub(crate) mod tombstones;
pub(crate) mod values;
