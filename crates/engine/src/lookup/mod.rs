//! Rows of one key, merged from all segments that have it.
//!
//! [`locate`] finds the key in each segment. [`RowCursor`] reads its rows in one segment, without hidden
//! rows: erased rows, and rows below the retention watermark. [`MergeIterator`] makes one stream of several
//! cursors, and applies `keep` and the window. [`add_answers`] and [`pair_dates`] read the answers of a
//! lookup. [`BlockCache`] keeps the last block of each segment for callers that go through many keys. Rows of
//! memtables come as segments in memory (`TableVersion::sources_of`). Must not know populations.

mod answers;
mod cursor;
mod merge;

pub(crate) use answers::{KeyLocation, ROWS_BETWEEN_CHECKS, add_answers, locate, pair_dates};
pub(crate) use cursor::{BlockCache, RowCursor};
pub(crate) use merge::MergeIterator;
