//! Bytes: numbers, packed identifiers, and rows made of them.
//!
//! Must not know files, checksums, or the use of rows.

pub(crate) mod bytes;
mod packed;
pub(crate) mod record;
pub(crate) mod rows;

pub(crate) use packed::{HashSeed, Kind, Packed, Packer};
