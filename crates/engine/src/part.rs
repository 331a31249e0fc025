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

    /// All parts, ascending.
    pub(crate) fn all() -> impl Iterator<Item = Part> {
        (0..=u8::MAX).map(Part)
    }
}
