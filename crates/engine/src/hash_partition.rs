//! Parts: the 256 equal parts of the hash space, by which loads and matches are divided.

/// The hashes whose highest eight bits are this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part(pub(crate) u8);

impl Part {
    /// Bits of a hash that tell its part.
    pub(crate) const BITS: u8 = 8;
    /// How many parts there are.
    pub(crate) const COUNT: usize = 1 << Part::BITS;

    /// The part of a hash.
    #[inline(always)]
    pub(crate) fn of(hash: u64) -> Part {
        Part((hash >> 56) as u8)
    }

    /// The smallest hash in the part.
    pub(crate) fn first_hash(self) -> u64 {
        u64::from(self.0) << 56
    }

    /// How many bits of the hash the segments of so many rows share, so that each holds about
    /// `segment_rows` of them.
    pub(crate) fn prefix_bits(rows: u64, segment_rows: u64) -> u8 {
        let segments = rows.div_ceil(segment_rows.max(1)).next_power_of_two();
        segments.trailing_zeros().min(u32::from(Part::BITS)) as u8
    }

    /// The parts of each segment with so many prefix bits.
    pub(crate) fn groups(prefix_bits: u8) -> impl Iterator<Item = Vec<Part>> {
        let size = 1usize << (Part::BITS - prefix_bits.min(Part::BITS));
        let parts: Vec<Part> = Part::all().collect();
        parts.chunks(size).map(<[Part]>::to_vec).collect::<Vec<_>>().into_iter()
    }

    /// All parts, ascending.
    pub(crate) fn all() -> impl Iterator<Item = Part> {
        (0..=u8::MAX).map(Part)
    }
}
