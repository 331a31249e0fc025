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

pub(crate) use block::Block;
pub(crate) use builder::SegmentBuilder;
pub(crate) use header::{Header, SegmentInfo};
pub(crate) use page::{DatePage, IdPage};
pub(crate) use reader::Segment;

use twox_hash::XxHash3_64;

/// Rows on a full page of values and of dates.
pub(crate) const PAGE_ROWS: u32 = 1024;

/// Blocks are numbered so that this many rows fall on each, or up to twice as many.
pub(crate) const BLOCK_ROWS: u64 = 128;

/// The checksum of a part of a file. Its place is part of it, so that bytes that were
/// written well but in the wrong place are found out.
pub(crate) fn checksum(region: Region, offset: usize, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed((region as u64) << 56 | offset as u64, bytes)
}

/// The parts of a segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Region {
    Header = 0,
    Directory = 1,
    Heads = 2,
    Keys = 3,
    Values = 4,
    Dates = 5,
}

/// Damage inside a region. The segment adds the file's name and the region's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) region: Region,
    /// From the start of the region.
    pub(crate) offset: usize,
    pub(crate) what: &'static str,
}
