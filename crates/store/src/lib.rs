//! What a store is, whatever keeps it: the [`Store`] and [`Table`] traits, their errors,
//! and the way Arrow batches become observations.
//!
//! Must not know any backend, file format or network. Arrow batches are the only bulk
//! interface: a [`BatchSource`] goes in, a [`MatchSink`] receives what comes out. Rows are judged
//! here, so that a backend gets [`Observations`].
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod clock;
mod copy;
mod error;
mod ingest;
mod matching;
mod scan;
mod traits;

pub use clock::now;
pub use copy::{Copied, CopyOptions, Stage, Sum, Watch, copy_table};
pub use error::{Error, ErrorKind, Result};
pub use ingest::{
    BatchSource, IdColumn, Ingest, NoRejects, ObservationSource, Observations, OneObservation,
    Reject, RejectSink, SourceBatch, population_ids, stored_rows,
};
pub use matching::{Match, MatchCounts, MatchLane, MatchQuery, MatchSink, PlanStep, match_schema};
pub use scan::{PARTS, Parts, RowBatch, RowLane, Scan};
pub use traits::{
    Answers, Distinct, Durability, Erased, Erasures, Finding, Repaired, Store, Table, TableStats,
};
