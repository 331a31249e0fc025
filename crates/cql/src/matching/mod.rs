//! Joins a population with a table in the servers.
//!
//! 1. [`population`]: reads identifiers in batches that fit in memory, and divides them into
//!    runs of buckets. Sorts and deduplicates the keys of a run when a task takes it.
//! 2. [`plan`]: turns each bucket's keys into reads: a single key, an IN query, or a partition
//!    scan, whichever costs less.
//! 3. [`fetch`]: sends the reads of a [`query_context`], within the concurrency limit; merges
//!    rows with the sorted keys into answers. A hot key is read by itself, from its bucket and its
//!    shards.
//! 4. [`output`]: turns answers into Arrow batches, which wait in memory and then in a temporary file. Tables
//!    on the servers go on changing; the rows of a match stay as they were counted.
//!
//! A positional match also keeps the number of each row beside its identifier, and the state of each row
//! ([`RowStates`](idmatch_store::RowStates)). Other matches keep neither.
//!
//! [`run`] takes one population batch after another through these steps. Invariant: each population row is
//! answered exactly once, or the match is an error.

mod fetch;
mod output;
mod plan;
mod population;
mod query_context;
mod run;

pub(crate) use run::CqlMatch;
