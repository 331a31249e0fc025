//! Fewer and larger segments, without what nobody sees any more.
//!
//! [`choose`] is a pure function of what segments there are: it names some that share a range of
//! hashes. [`merge`] writes their rows anew: each pair or observation once, and none that is older than the
//! table's retention. A merge is about one range, so it needs little spare disk and memory.
//!
//! Must not know manifests, or who reads meanwhile.

mod choose;
mod merge;

pub(crate) use choose::{Effort, Sized, choose};
pub(crate) use merge::{Merging, merge};
