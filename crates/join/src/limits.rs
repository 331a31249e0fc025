//! The limits of the work in memory. In unit tests they are so small that each boundary is crossed.

/// A chunk ends with the batch that brings it to this many rows or bytes. Each thread that writes a result
/// has one chunk in memory.
pub(crate) const CHUNK_ROWS: usize = if cfg!(test) { 5 } else { 1 << 18 };
pub(crate) const CHUNK_BYTES: usize = 32 << 20;

/// Smaller batches of a population are put together before they are spilled.
pub(crate) const BATCH_ROWS: usize = if cfg!(test) { 3 } else { 1 << 14 };

/// A lane of a match divides this many rows or bytes among chunks at once.
pub(crate) const DIVIDED_ROWS: usize = if cfg!(test) { 4 } else { 1 << 19 };
pub(crate) const DIVIDED_BYTES: usize = 32 << 20;

/// Rows that are put together at once. This bounds the memory of a hot identifier in a wide population.
pub(crate) const GATHERED_ROWS: usize = if cfg!(test) { 2 } else { 1 << 14 };

/// Bytes that stay in memory: of a hop's carried columns, and as many of its matches.
pub(crate) const MEMORY_BYTES: usize = if cfg!(test) { 2_000 } else { 64 << 20 };
