//! Joins a population with a table in the servers.
//!
//! 1. [`population`]: identifiers are read in tranches that fit in memory, and divided into sections, each for
//!    some buckets; the keys of a section are ordered, each once, when its turn comes.
//! 2. [`plan`]: each bucket's keys become requests: for one key, for a list of keys, or for the whole bucket,
//!    whichever costs less.
//! 3. [`fetch`]: so many requests at once as is allowed; rows meet the keys in order, and become answers.
//! 4. [`output`]: answers become Arrow batches, which wait in memory and then in a temporary file: the
//!    servers go on to change, and a match is always the one that was counted.
//!
//! Invariant: every population row is answered by exactly one request, or the match is an error.

mod fetch;
mod output;
mod plan;
mod population;
mod question;
mod run;

pub(crate) use run::CqlMatch;
