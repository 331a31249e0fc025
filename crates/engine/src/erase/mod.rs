//! Erasing: which rows an erasure hides, and how its tombstones are published.
//!
//! Must not know how tombstones are applied: `lookup::cursor` applies them to reads, `segment::sort` to new
//! segments.

mod eraser;
mod search;

pub(crate) use eraser::Eraser;
pub(crate) use search::search;
