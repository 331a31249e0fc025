//! Copies a table from any store to any other.
//!
//! 1. What remembers erasures goes first ([`take_over`]): what it hides never shows in the copy.
//! 2. Both tables are summed up part by part ([`sums`]). Parts that are equal are done; so a copy that
//!    ended early goes on where it was, and one that is repeated sends what changed.
//! 3. The others are sent in portions ([`send`]).
//! 4. The destination is summed up once more, and compared with what the source had.
//!
//! Must not know any backend: whatever is a [`Table`] can be copied. Invariants:
//! - nothing is ever removed from the destination; a copy is a merge, and repeating it is safe;
//! - what is reported as equal was read back from the destination.

mod progress;
mod send;
mod sums;
mod table;
mod take_over;

pub use progress::{Stage, Watch};
pub use sums::Sum;
pub use table::{Copied, CopyOptions, copy_table};
