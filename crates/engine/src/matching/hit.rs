//! Hits, which a probe finds.

use std::ops::Range;

/// The rows of an entry's key in one segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    /// The entry's number in its partition.
    pub(super) entry: u32,
    /// The segment's number among those of the partition.
    pub(super) segment: u32,
    pub(super) block: u32,
    first_row: u32,
    end_row: u32,
}

impl Hit {
    pub(super) fn new(entry: u32, segment: u32, block: u32, rows: Range<u32>) -> Hit {
        Hit { entry, segment, block, first_row: rows.start, end_row: rows.end }
    }

    /// The rows' numbers in the block.
    pub(super) fn rows(&self) -> Range<u32> {
        self.first_row..self.end_row
    }
}
