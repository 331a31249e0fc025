//! Segments: immutable files of one table and one direction, ordered by the hash of the key.
//!
//! ```text
//! header | directory | heads | key pages | value pages | date pages
//! ```
//! A segment covers the hashes that start with its prefix. The bits after the prefix number
//! its blocks; the directory says where each block's head is. A head holds the next 16 bits
//! of every key's hash (its residual), how many rows each key has, and where the block's
//! pages are. Keys, values and dates have regions of their own, so that a count reads no
//! values and a scan of one column is sequential. `spec/format/segment.md` has every byte.
//!
//! What makes a read safe without reading everything: head, value page and date page carry
//! checksums that are verified at every read. A key page need not be: a key was found by
//! its hash, so a damaged key shows as a residual that fits and a key that does not, and
//! then, and only then, its page's checksum is looked at.
//!
//! This folder knows bytes, not tables: merging segments is for `lookup` and `matching`.

mod block;
mod builder;
mod check;
mod header;
mod page;
mod reader;
mod region;
mod sort;

pub(crate) use block::Block;
pub(crate) use builder::SegmentBuilder;
pub(crate) use header::{Header, SegmentInfo};
pub(crate) use page::{DatePage, IdPage};
pub(crate) use reader::Segment;
pub(crate) use region::{BLOCK_ROWS, Damage, PAGE_ROWS, Region, checksum};
pub(crate) use sort::sorted;
