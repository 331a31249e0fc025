//! Options of a store: how much memory its operations take.

/// Bounds of loads and matches. Smaller ones save memory and cost time; answers stay the same.
#[derive(Debug, Clone, Copy)]
pub struct MemoryLimits {
    /// A segment holds about this many rows, so that it is sorted in little memory.
    pub segment_rows: u64,
    /// A load's buffer of a part that reaches this many bytes goes to disk. Each thread has one
    /// for every part and side.
    pub chunk_bytes: usize,
    /// A load sorts rows in pieces of at most this many bytes, or of one chunk. More of one
    /// range of hashes becomes several segments.
    pub run_bytes: usize,
    /// A population larger than this many bytes is matched in tranches. The default holds
    /// about 15 million identifiers of 32 hex digits.
    pub tranche_bytes: usize,
    /// What was upserted takes at most about so many bytes before it is written as segments;
    /// upserts wait where that is not fast enough.
    pub memtable_bytes: usize,
}

impl Default for MemoryLimits {
    fn default() -> MemoryLimits {
        MemoryLimits {
            segment_rows: 2 << 20,
            chunk_bytes: 256 << 10,
            run_bytes: 640 << 20,
            tranche_bytes: 512 << 20,
            memtable_bytes: 256_000_000,
        }
    }
}
