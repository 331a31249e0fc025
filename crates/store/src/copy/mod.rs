//! Copies a table from any store to any other.
//!
//! 1. Tombstones are copied before rows ([`tombstones`]): an erased row never shows in the copy.
//! 2. Both tables are summed range by range ([`sums`]). Equal ranges are done, so a repeated copy resumes
//!    where it stopped, and sends only ranges that changed.
//! 3. Ranges that differ are read and loaded in batches ([`send`]).
//! 4. The destination is summed again and compared with the source.
//!
//! Must not know any backend: it copies whatever has [`crate::Store`] and [`crate::TableSnapshot`]. Invariants:
//! - nothing is removed from the destination: a copy is a merge, and repeating it is safe;
//! - rows that are reported as equal were read back from the destination.

mod send;
mod sums;
mod table;
mod tombstones;

pub use sums::Sum;
pub use table::{Copied, CopyOptions, copy_table};
