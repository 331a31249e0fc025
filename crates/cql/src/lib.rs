//! The store on ScyllaDB or Cassandra: the same questions and answers as the embedded one.
//!
//! Imports go one way: `store` and `table` -> `matching`, `maintain`, `write` -> `read` -> `context` ->
//! `schema` -> `client` -> `settings`, `error`. Reads never publish: the hot keys that they meet go through a
//! channel to a task of the store (`write::hot_keys`).
//!
//! Must not know files of the embedded engine, Python, or where batches come from. The tables in the
//! servers are those of `spec/cql/`; nothing else is read or written there.
//!
//! Invariants:
//! - every row is written to both directions, with the date it was seen as its timestamp: the order of
//!   writes, repeated ones and concurrent ones never change what is there in the end;
//! - every statement is idempotent; it is repeated until it is acknowledged or its time is over, and
//!   then a write is reported as unknown, never as failed;
//! - no question begins with a knowledge of erasures that is older than the lease; what it gives is as of
//!   then, however long it takes.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod client;
mod context;
mod error;
mod maintain;
mod matching;
mod read;
mod schema;
mod settings;
mod store;
mod table;
mod write;

pub use settings::{Effective, MatchReads, Settings};
pub use store::CqlStore;
