//! From Arrow batches to observations: the one place where input is judged.
//!
//! A backend pulls [`SourceBatch`]es from a [`BatchSource`] and hands each, from any
//! thread, to [`Ingest::observations`]. Rows that break the rules of `idmatch-model` never
//! pass: they are counted and reported with source, row, column and reason, or, when the
//! caller is strict, the first one is the error. Text columns are taken as bytes, because
//! producers do not always keep their promise of UTF-8.

mod dates;
mod ids;
mod judge;
mod rejects;
mod source;
mod targets;

pub use ids::{IdColumn, population_ids};
pub use judge::{Ingest, Observations};
pub use rejects::{NoRejects, Reject, RejectSink};
pub use source::{BatchSource, OneObservation, SourceBatch};
