//! The regions of a segment file, their checksums and their damage.

use twox_hash::XxHash3_64;

/// Rows on a full page of values and of dates.
pub(crate) const PAGE_ROWS: u32 = 1024;

/// A block has this many rows, or up to twice as many.
pub(crate) const BLOCK_ROWS: u64 = 128;

/// The checksum of some bytes of a file. It covers their place, so that bytes written well but in the wrong
/// place are detected.
pub(crate) fn checksum(region: Region, offset: usize, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed((region as u64) << 56 | offset as u64, bytes)
}

/// The regions of a segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Region {
    Header = 0,
    Directory = 1,
    BlockHeaders = 2,
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
