//! From Arrow batches to observations: the one place where input is judged.
//!
//! A caller judges the batches of a [`BatchSource`] with [`Ingest::judged`], or the targets of an erasure
//! with [`Ingest::targets`]. A backend pulls [`Observations`] from an [`ObservationSource`], on any number of
//! threads. Rows that break the rules of `idmatch-model` never pass: they are counted and reported with
//! source, row, column and reason. When the caller is strict, the first bad row is the error. Rows that are
//! stored already ([`stored_rows`]) are not judged by the clock again. Text columns are read as bytes,
//! because producers do not always keep their promise of UTF-8.

mod dates;
mod ids;
mod judge;
mod observations;
mod population;
mod pulled;
mod rejects;
mod source;
mod targets;

pub use ids::{IdColumn, population_ids};
pub use judge::Ingest;
pub use observations::Observations;
pub use population::JudgedPopulation;
pub use pulled::{ObservationSource, stored_rows};
pub use rejects::{NoRejects, Reject, RejectSink};
pub use source::{BatchSource, OneObservation, SourceBatch};
