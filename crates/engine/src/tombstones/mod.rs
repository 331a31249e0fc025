//! Tombstones: which rows are erased.
//!
//! A table remembers each erasure as a tombstone: a keyed hash and a date ([`idmatch_model::ErasureKey`]), in
//! a few files ([`TombstoneFile`]) of growing size. Nothing here knows an identifier that was erased.
//!
//! A tombstone hides the rows of its target up to its date, also rows that come later. Every segment is
//! written without the rows that are erased by then, so readers need not check them. A segment that may have
//! rows that were erased *since* is marked. Its rows are checked one by one ([`KeyTombstones`]) until it is
//! rewritten. Must not know manifests or versions.

mod file;
mod set;

pub(crate) use file::{TombstoneFile, TombstoneOwner, decode, sealed, write};
pub(crate) use set::{KeyTombstones, RowRules, TombstoneSet, Tombstones};
