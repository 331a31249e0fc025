//! Options of a store: how much memory its operations take.

/// Bounds of loads and matches. Smaller ones save memory and cost time; answers stay the same.
#[derive(Debug, Clone, Copy)]
pub struct MemoryLimits {
    /// A segment holds about this many rows, so that it is sorted in little memory.
    pub segment_rows: u64,
    /// A load spills a partition's buffer that reaches this many bytes. Each thread has one for every
    /// partition and side.
    pub chunk_bytes: usize,
    /// A load sorts runs of at most this many bytes, or of one chunk. More of one range of hashes becomes
    /// several segments.
    pub run_bytes: usize,
    /// A population larger than this many bytes is matched in batches. The default holds about 15 million
    /// identifiers of 32 hex digits.
    pub population_bytes: usize,
    /// Memtables take at most about this many bytes before they are flushed; upserts wait if that is not fast
    /// enough.
    pub memtable_bytes: usize,
}

impl Default for MemoryLimits {
    fn default() -> MemoryLimits {
        MemoryLimits {
            segment_rows: 2 << 20,
            chunk_bytes: 256 << 10,
            run_bytes: 640 << 20,
            population_bytes: 512 << 20,
            memtable_bytes: 256_000_000,
        }
    }
}
