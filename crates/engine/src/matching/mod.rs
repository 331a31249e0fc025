//! Joins a population with a table.
//!
//! 1. [`population`]: the identifiers are packed, hashed, divided into the 256 parts of the
//!    hash space, and each part is sorted by hash: the order of the segments.
//! 2. [`probe`]: part by part, every segment is met in that order, which makes the join a
//!    merge: sequential reads, no search from the top. What is found is a [`probe::Hit`].
//! 3. [`count`]: hits are counted; only where a key has rows in several segments, or a window
//!    is asked for, are dates and values read.
//! 4. [`output`]: hits become Arrow batches, when and as often as the caller wants them.
//!
//! A population larger than memory should hold goes through these steps in tranches, whose hits
//! wait in temporary files ([`spill`]). Must not know where the population comes from or where the batches go.

mod context;
mod count;
mod engine_match;
mod hit;
mod output;
mod population;
mod probe;
mod spill;

pub(crate) use engine_match::EngineMatch;
pub(crate) use output::BatchBuilder;
