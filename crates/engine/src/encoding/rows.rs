//! Rows one after another: in memory, in spill files and in the journal.
//!
//! A row is `seen_at (6 bytes) | key | value`, the identifiers as in [`super::record`].

use super::Packed;
use super::bytes::slice;
use super::record;
use idmatch_model::SeenAt;

/// Bytes of a row's date.
const DATE_BYTES: usize = 6;

/// A row, read.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) hash: u64,
    pub(crate) key: Packed<'a>,
    pub(crate) value: Packed<'a>,
    pub(crate) seen_at: SeenAt,
}

/// Appends a row.
#[inline]
pub(crate) fn push(out: &mut Vec<u8>, seen_at: SeenAt, key: Packed<'_>, value: Packed<'_>) {
    let [a, b, c, d, e, f, _, _] = seen_at.millis().to_le_bytes();
    out.extend_from_slice(&[a, b, c, d, e, f]);
    record::push(out, key);
    record::push(out, value);
}

/// The row at `at`, whose hash is left 0, and where the next one starts.
#[inline]
pub(crate) fn read(rows: &[u8], at: usize) -> Option<(Row<'_>, usize)> {
    let mut millis = [0; 8];
    millis.get_mut(..DATE_BYTES)?.copy_from_slice(slice(rows, at, DATE_BYTES)?);
    let seen_at = SeenAt::from_millis(i64::from_le_bytes(millis)).ok()?;
    let (key, next) = record::read(rows, at + DATE_BYTES)?;
    let (value, next) = record::read(rows, next)?;
    Some((Row { hash: 0, key, value, seen_at }, next))
}
