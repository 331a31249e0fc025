//! Segments: immutable files of one table and one direction, ordered by the hash of the key.
//!
//! ```text
//! header | directory | block headers | key pages | value pages | date pages
//! ```
//! A segment covers the hashes that start with its prefix. The bits after the prefix number its blocks; the
//! directory says where the header of each block is. A block header has the fingerprint of every key (the next
//! 16 bits of its hash), the number of rows of each key, and the places of the block's pages. Keys, values and
//! dates have regions of their own, so that a count reads no values and a scan of one column is sequential.
//! `spec/format/segment.md` has every byte.
//!
//! A read is safe without reading everything: block header, value page and date page carry checksums that are
//! verified at every read. The checksum of a key page is verified only after a mismatch. A key is found by
//! its hash, so a damaged key shows as a fingerprint that fits and a key that does not.
//!
//! Must not know other segments, manifests or versions. The rules of a table come as `RowRules`. Merging
//! segments is for `lookup` and `matching`.

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
