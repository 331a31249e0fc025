//! Lookups of one key: [`locate`] finds it in all segments and memtables, [`add_answers`] adds its newest
//! answers to the answers of a call, [`pair_dates`] lists the dates of one pair.
//!
//! Erasures search with [`locate`], too. Must not know snapshots or retention: the window that a caller gives is
//! the visible one. Long reads ask every [`ROWS_BETWEEN_CHECKS`] rows whether the caller has given up.

use super::{MergeIterator, RowCursor};
use crate::encoding::Packed;
use crate::hash_partition::HashPartition;
use crate::memtable::Commit;
use crate::segment::Segment;
use crate::tombstones::KeyTombstones;
use crate::versions::TableVersion;
use idmatch_model::{Keep, SeenAt, Side, Window};
use idmatch_store::{Answers, Call, Result};
use std::ops::Range;
use std::sync::Arc;

/// After this many rows of a key a reader asks whether its caller has given up.
pub(crate) const ROWS_BETWEEN_CHECKS: usize = 1 << 14;

/// The rows of a key in one segment.
#[derive(Clone)]
pub(crate) struct KeyLocation {
    segment: Arc<Segment>,
    block: u32,
    rows: Range<u32>,
    erased: Option<Arc<KeyTombstones>>,
}

impl KeyLocation {
    /// The file of the rows.
    pub(crate) fn file_name(&self) -> Option<&str> {
        self.segment.file_name()
    }

    /// The number of rows, hidden ones included.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn cursor(&self) -> Result<RowCursor<'_>> {
        let block = self.segment.known_block(self.block)?;
        let cursor = RowCursor::new(&self.segment, block, self.rows.clone());
        Ok(cursor.skipping_hidden(self.erased.clone()))
    }
}

/// Finds a key in every segment that has it.
pub(crate) fn locate(
    table: &TableVersion,
    by: Side,
    key: Packed<'_>,
    last: Commit,
) -> Result<Vec<KeyLocation>> {
    let hash = key.hash(table.row_rules.seed);
    let mut locations = Vec::new();
    for segment in table.sources_of(by, HashPartition::of(hash), std::iter::once(hash), last)? {
        if let Some((block, at)) = segment.find(hash, key)? {
            let rows = segment.known_block(block)?.rows_of(at);
            let erased = table.tombstones_in(&segment, by, key);
            locations.push(KeyLocation { segment, block, rows, erased });
        }
    }
    Ok(locations)
}

/// The dates of the rows whose value is this one, newest first, repeats included.
pub(crate) fn pair_dates(
    locations: &[KeyLocation],
    value: Packed<'_>,
    call: &Call,
) -> Result<Vec<SeenAt>> {
    let (mut dates, mut read) = (Vec::new(), 0usize);
    for location in locations {
        let mut rows = location.cursor()?;
        while rows.has_row()? {
            read += 1;
            if read.is_multiple_of(ROWS_BETWEEN_CHECKS) {
                call.check()?;
            }
            if rows.value()? == value {
                dates.extend(rows.date()?);
            }
            rows.advance();
        }
    }
    dates.sort_unstable_by(|a, b| b.cmp(a));
    Ok(dates)
}

/// Adds the answers of a key, the newest `limit`.
///
/// # Errors
/// `Corrupt`; `InvalidArgument` for too many answers; `Cancelled`.
pub(crate) fn add_answers(
    locations: &[KeyLocation],
    (keep, window): (Keep, Window),
    limit: usize,
    answers: &mut Answers,
    call: &Call,
) -> Result<()> {
    let cursors = locations.iter().map(KeyLocation::cursor).collect::<Result<Vec<_>>>()?;
    let mut merge = MergeIterator::new(cursors, keep, window);
    let (mut left, mut text) = (limit, Vec::new());
    while left > 0
        && let Some((seen_at, value)) = merge.next()?
    {
        if left.is_multiple_of(ROWS_BETWEEN_CHECKS) {
            call.check()?;
        }
        text.clear();
        value.unpack_into(&mut text);
        // Only UTF-8 is ever stored, and the page's checksum held.
        answers.push(&String::from_utf8_lossy(&text), seen_at)?;
        left -= 1;
    }
    answers.end_key();
    Ok(())
}
