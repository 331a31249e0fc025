//! What a store is, whatever keeps it: the [`Store`] and [`Table`] traits, their errors,
//! the way Arrow batches become observations, and an in-memory reference.
//!
//! Must not know any backend, file format or network. Arrow batches are the only bulk
//! interface: a [`BatchSource`] goes in, a [`MatchSink`] receives what comes out.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod ingest;
mod memory;
mod traits;

pub use clock::now;
pub use error::{Error, ErrorKind, Result};
pub use ingest::{
    BatchSource, IdColumn, Ingest, NoRejects, Observations, OneObservation, Reject, RejectSink,
    SourceBatch, population_ids,
};
pub use memory::MemoryStore;
pub use traits::{
    Answers, Distinct, Durability, Erased, Finding, Match, MatchCounts, MatchLane, MatchQuery,
    MatchSink, PlanStep, Repaired, Store, Table, TableStats, match_schema,
};
