//! Answers to a question by one key, read in batches.

use super::merge::SeenValues;
use super::{MergeIterator, RowCursor};
use crate::encoding::Packed;
use crate::hash_partition::HashPartition;
use crate::memtable::Commit;
use crate::segment::Segment;
use crate::tombstones::KeyTombstones;
use crate::versions::TableVersion;
use idmatch_model::{Keep, SeenAt, Side, Window};
use idmatch_store::{Answers, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

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
    pub(crate) fn file_name(&self) -> Option<String> {
        self.segment.file_name()
    }

    /// The number of rows, hidden ones included.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn cursor(&self) -> Result<RowCursor<'_>> {
        let block = self.segment.known_block(self.block)?;
        let cursor = RowCursor::new(&self.segment, block, self.rows.clone());
        Ok(cursor.visible(self.erased.clone()))
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
    let of_key = std::iter::once((hash, key));
    for segment in table.sources_of(by, HashPartition::of(hash), of_key, last)? {
        if let Some((block, at)) = segment.find(hash, key)? {
            let rows = segment.known_block(block)?.rows_of(at);
            let erased = table.tombstones_in(&segment, by, key);
            locations.push(KeyLocation { segment, block, rows, erased });
        }
    }
    Ok(locations)
}

/// The dates of the rows whose value is this one, newest first, repeats included.
pub(crate) fn pair_dates(locations: &[KeyLocation], value: Packed<'_>) -> Result<Vec<SeenAt>> {
    let mut dates = Vec::new();
    for location in locations {
        let mut rows = location.cursor()?;
        while rows.has_row()? {
            if rows.value()? == value {
                dates.extend(rows.date()?);
            }
            rows.advance();
        }
    }
    dates.sort_unstable_by(|a, b| b.cmp(a));
    Ok(dates)
}

/// Answers are read in batches that double from this many rows up to a page.
const FIRST_BATCH: usize = 16;
const LARGEST_BATCH: usize = 1024;

/// Owns its location in every segment and reads on when asked.
pub(crate) struct KeyAnswers {
    locations: Vec<KeyLocation>,
    keep: Keep,
    window: Window,
    seen: SeenValues,
    batch_rows: usize,
    ready: VecDeque<(String, SeenAt)>,
    current: String,
}

impl KeyAnswers {
    pub(crate) fn new(locations: Vec<KeyLocation>, keep: Keep, window: Window) -> KeyAnswers {
        KeyAnswers {
            locations,
            keep,
            window,
            seen: SeenValues::new(),
            batch_rows: FIRST_BATCH,
            ready: VecDeque::new(),
            current: String::new(),
        }
    }

    fn read_batch(&mut self) -> Result<()> {
        let cursors = self.locations.iter().map(KeyLocation::cursor).collect::<Result<Vec<_>>>()?;
        let mut merge = MergeIterator::new(cursors, self.keep, self.window)
            .resume(std::mem::take(&mut self.seen));
        let mut ended = false;
        while self.ready.len() < self.batch_rows {
            let Some((seen_at, value)) = merge.next()? else {
                ended = true;
                break;
            };
            let mut text = Vec::new();
            value.unpack_into(&mut text);
            // Only UTF-8 is ever stored, and the page's checksum held.
            self.ready.push_back((String::from_utf8_lossy(&text).into_owned(), seen_at));
        }
        let (cursors, seen) = merge.suspend();
        let left: Vec<Range<u32>> = cursors.iter().map(RowCursor::rows).collect();
        drop(cursors);
        self.seen = seen;
        for (location, left) in self.locations.iter_mut().zip(left) {
            location.rows = left;
        }
        if ended {
            self.locations.clear();
        }
        self.batch_rows = (self.batch_rows * 2).min(LARGEST_BATCH);
        Ok(())
    }
}

impl Answers for KeyAnswers {
    fn next_answer(&mut self) -> Result<Option<(&str, SeenAt)>> {
        if self.ready.is_empty() && !self.locations.is_empty() {
            self.read_batch()?;
        }
        let Some((text, seen_at)) = self.ready.pop_front() else { return Ok(None) };
        self.current = text;
        Ok(Some((&self.current, seen_at)))
    }
}
