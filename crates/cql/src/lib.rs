//! The store on ScyllaDB or Cassandra: the same requests and answers as the embedded one.
//!
//! Imports go one way: `admin` -> `store` -> `snapshot` -> `table`, `tables` -> `matching`,
//! `maintain`, `write` -> `read` -> `context` -> `schema` -> `client` -> `settings`, `error`, `logged`.
//! Reads never publish: they report hot keys through a channel to a task of the store (`write::hot_keys`). No
//! event of the log has an identifier, nor the text of a server, which may contain identifiers.
//!
//! Must not know the files of the embedded engine, Python, or the source of batches. The CQL tables
//! are those of `spec/cql/`; this crate reads and writes no others.
//!
//! Invariants:
//! - Every row is written to both directions, with the date it was seen as its timestamp. Order,
//!   repetition and concurrency of writes never change the final state.
//! - Every statement is idempotent. It is retried until it is acknowledged or times out; a write
//!   that times out is reported as unknown, never as failed.
//! - No request starts with tombstones older than the metadata TTL. Its answer is as of its start,
//!   however long it takes.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod admin;
mod client;
mod context;
mod error;
mod logged;
mod maintain;
mod matching;
mod read;
mod row_buffer;
mod schema;
mod settings;
mod snapshot;
mod store;
mod table;
mod tables;
mod write;

pub use client::{NodeAnswers, NodeRow, NodeValue};
pub use settings::{Effective, MatchReads, Settings};
pub use store::CqlStore;
