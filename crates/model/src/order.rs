//! The order in which answers are given.

use crate::SeenAt;
use std::cmp::Ordering;

/// Newest first; ties by the bytes of the answer, ascending.
pub fn newest_first(a: (SeenAt, &[u8]), b: (SeenAt, &[u8])) -> Ordering {
    b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1))
}
