//! Hash partitions: the 256 equal ranges of the hash space, by which work on all keys is divided.
//!
//! Loads, flushes and compactions write segments by partition. Memtables keep their rows in partitions.
//! Matches, scans, statistics and `verify` read one partition per task. The hash is the hash of a packed
//! identifier (`encoding::packed`). Prefix bits of segments are chosen here, too. Must not know the content
//! of segments, nor threads. Invariant: a segment has at most [`HashPartition::BITS`] prefix bits, so it is
//! in one partition or covers whole partitions.

/// The hashes whose highest eight bits are this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HashPartition(pub(crate) u8);

impl HashPartition {
    /// How many bits of a hash name its partition.
    pub(crate) const BITS: u8 = 8;
    /// How many partitions there are.
    pub(crate) const COUNT: usize = 1 << HashPartition::BITS;

    /// The partition of a hash.
    #[inline(always)]
    pub(crate) fn of(hash: u64) -> HashPartition {
        HashPartition((hash >> 56) as u8)
    }

    /// The smallest hash of the partition.
    pub(crate) fn first_hash(self) -> u64 {
        u64::from(self.0) << 56
    }

    /// How many prefix bits the segments of `rows` rows share, so that each holds about `segment_rows`.
    pub(crate) fn prefix_bits(rows: u64, segment_rows: u64) -> u8 {
        let segments = rows.div_ceil(segment_rows.max(1)).next_power_of_two();
        segments.trailing_zeros().min(u32::from(HashPartition::BITS)) as u8
    }

    /// The partitions of each segment with this many prefix bits.
    pub(crate) fn groups(prefix_bits: u8) -> impl Iterator<Item = Vec<HashPartition>> {
        let size = 1usize << (HashPartition::BITS - prefix_bits.min(HashPartition::BITS));
        let partitions: Vec<HashPartition> = HashPartition::all().collect();
        partitions.chunks(size).map(<[HashPartition]>::to_vec).collect::<Vec<_>>().into_iter()
    }

    /// All partitions, ascending.
    pub(crate) fn all() -> impl Iterator<Item = HashPartition> {
        (0..=u8::MAX).map(HashPartition)
    }
}
