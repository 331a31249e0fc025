//! Rows of one key, merged from all segments that have it.
//!
//! [`RowCursor`] reads the rows of a key from one segment; [`Merge`] makes one stream of
//! several and applies `keep` and the window; [`KeyAnswers`] owns what it needs to do that
//! bit by bit for as long as a caller wants. [`BlockCache`] keeps the last block of each segment.

mod answers;
mod cursor;
mod merge;

pub(crate) use answers::{KeyAnswers, Place, pair_dates, places};
pub(crate) use cursor::{BlockCache, RowCursor};
pub(crate) use merge::Merge;
