//! The store on ScyllaDB or Cassandra: the same questions and answers as the embedded one.
//!
//! Data flows from [`CqlStore`] to a table (`table`), from there to what it is asked: `write` and
//! `load`, `answers`, `matching`, `erase`, `verify`. They all speak to the servers through
//! `client`, and know from `state` what the table is and what was erased in it.
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

mod answers;
mod bucket;
mod catalog;
mod client;
mod erase;
mod erasures;
mod errors;
mod export;
mod handle;
mod hot;
mod load;
mod matching;
mod pages;
mod progress;
mod retention;
mod rows;
mod sample;
mod scan;
mod schema;
mod settings;
mod state;
mod statements;
mod store;
mod table;
mod verify;
mod write;

pub use settings::{Effective, MatchReads, Settings};
pub use store::CqlStore;
