//! Joins a population with a table.
//!
//! 1. `population`: identifiers are packed, hashed and divided into hash partitions; each partition is
//!    sorted by hash, which is the order of the segments.
//! 2. `probe`: partition by partition, its keys are found in every segment, in that order. So it reads
//!    each block that it needs once, front to back. Its results are hits.
//! 3. `count`: hits are counted. Dates and values are read only where they decide: for keys with rows in
//!    several segments, for segments with hidden rows, for several rows with `keep="all"`, and for
//!    windows.
//! 4. `output`: hits become Arrow batches, whenever the caller asks.
//!
//! A positional match also keeps the number of each population row before its identifier, and the state of
//! the row ([`RowStates`](idmatch_store::RowStates)). Other matches keep neither.
//!
//! A population that exceeds its memory limit is matched in batches, whose hits wait in spill files
//! (`spill`). Must not know where the population comes from or where the result goes.

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
