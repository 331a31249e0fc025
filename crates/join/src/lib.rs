//! Matches that tell more than pairs: carried columns of the population, its unmatched rows, and chains of
//! tables. All of it is made of positional matches, so every store has it.
//!
//! 1. [`carried`](self): as a hop pulls its population, the columns beside the identifier are spilled, in chunks
//!    of consecutive rows.
//! 2. [`chunk_matches`](self): the positional matches of the hop are spilled, too, divided by the chunk of their
//!    row.
//! 3. [`gather`](self): chunk by chunk, matches are put beside the carried columns of their rows. The result
//!    is the population of the next hop ([`next_population`](self)), or the output.
//! 4. [`fates`](self): the fate of each population row, which [`unmatched`](self) tells as a reason.
//!
//! Memory is bounded: a chunk for each thread, the memory of a hop's match, and two bytes for each population
//! row. Must not know any backend, where populations come from or where the result goes.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod carried;
mod chain;
mod chunk_matches;
mod columns;
mod fates;
mod gather;
mod hop;
mod joined;
mod limits;
mod next_population;
#[cfg(test)]
mod tests;
mod threads;
mod unmatched;

pub use chain::join;
pub use hop::{Hop, HopCounts, JoinOptions};
pub use joined::{JoinCounts, Joined};
