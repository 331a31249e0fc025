//! Erasing: which rows an erasure hides, and how its tombstones are published.
//!
//! Must not know how readers apply tombstones: `segment` and `lookup` do.

mod eraser;
mod search;

pub(crate) use eraser::Eraser;
