//! Rows of one key, merged from all segments that have it.
//!
//! [`RowCursor`] reads the rows of a key from one segment. [`MergeIterator`] makes one stream of several
//! cursors and applies `keep`, the window and tombstones. [`locate`] finds a key, and [`add_answers`] reads its answers.
//! [`BlockCache`] keeps the last block of each segment. Must not know populations.

mod answers;
mod cursor;
mod merge;

pub(crate) use answers::{KeyLocation, ROWS_BETWEEN_CHECKS, add_answers, locate, pair_dates};
pub(crate) use cursor::{BlockCache, RowCursor};
pub(crate) use merge::MergeIterator;
