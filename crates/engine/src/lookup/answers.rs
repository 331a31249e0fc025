//! Answers to a question by one key, for as long as the caller wants them.

use super::merge::Decided;
use super::{Merge, RowCursor};
use crate::encoding::Packed;
use crate::erasures::KeyErasures;
use crate::hash_partition::Part;
use crate::memtable::Commit;
use crate::segment::Segment;
use crate::versions::TableVersion;
use idmatch_model::{Keep, SeenAt, Side, Window};
use idmatch_store::{Answers, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The rows of a key in one segment.
#[derive(Clone)]
pub(crate) struct Place {
    segment: Arc<Segment>,
    block: u32,
    rows: Range<u32>,
    erased: Option<Arc<KeyErasures>>,
}

impl Place {
    /// The file that the rows are in.
    pub(crate) fn file_name(&self) -> Option<String> {
        self.segment.file_name()
    }

    /// How many rows there are, hidden ones among them.
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
pub(crate) fn places(
    table: &TableVersion,
    by: Side,
    key: Packed<'_>,
    last: Commit,
) -> Result<Vec<Place>> {
    let hash = key.hash();
    let mut places = Vec::new();
    let of_key = std::iter::once((hash, key));
    for segment in table.sources_of(by, Part::of(hash), of_key, last)? {
        if let Some((block, at)) = segment.find(hash, key)? {
            let rows = segment.known_block(block)?.rows_of(at);
            let erased = table.erased_in(&segment, by, key);
            places.push(Place { segment, block, rows, erased });
        }
    }
    Ok(places)
}

/// The dates of the rows whose value is this one, newest first, repeats included.
pub(crate) fn pair_dates(places: &[Place], value: Packed<'_>) -> Result<Vec<SeenAt>> {
    let mut dates = Vec::new();
    for place in places {
        let mut rows = place.cursor()?;
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

/// Answers are read in pieces that double from this many up to a page of rows.
const FIRST_PIECE: usize = 16;
const LARGEST_PIECE: usize = 1024;

/// Owns its place in every segment and reads on when asked.
pub(crate) struct KeyAnswers {
    places: Vec<Place>,
    keep: Keep,
    window: Window,
    decided: Decided,
    piece: usize,
    ready: VecDeque<(String, SeenAt)>,
    current: String,
}

impl KeyAnswers {
    pub(crate) fn new(places: Vec<Place>, keep: Keep, window: Window) -> KeyAnswers {
        KeyAnswers {
            places,
            keep,
            window,
            decided: Decided::new(),
            piece: FIRST_PIECE,
            ready: VecDeque::new(),
            current: String::new(),
        }
    }

    fn read_piece(&mut self) -> Result<()> {
        let cursors = self.places.iter().map(Place::cursor).collect::<Result<Vec<_>>>()?;
        let mut merge =
            Merge::new(cursors, self.keep, self.window).resume(std::mem::take(&mut self.decided));
        let mut ended = false;
        while self.ready.len() < self.piece {
            let Some((seen_at, value)) = merge.next()? else {
                ended = true;
                break;
            };
            let mut text = Vec::new();
            value.unpack_into(&mut text);
            // Only UTF-8 is ever stored, and the page's checksum held.
            self.ready.push_back((String::from_utf8_lossy(&text).into_owned(), seen_at));
        }
        let (cursors, decided) = merge.suspend();
        let left: Vec<Range<u32>> = cursors.iter().map(RowCursor::rows).collect();
        drop(cursors);
        self.decided = decided;
        for (place, left) in self.places.iter_mut().zip(left) {
            place.rows = left;
        }
        if ended {
            self.places.clear();
        }
        self.piece = (self.piece * 2).min(LARGEST_PIECE);
        Ok(())
    }
}

impl Answers for KeyAnswers {
    fn next_answer(&mut self) -> Result<Option<(&str, SeenAt)>> {
        if self.ready.is_empty() && !self.places.is_empty() {
            self.read_piece()?;
        }
        let Some((text, seen_at)) = self.ready.pop_front() else { return Ok(None) };
        self.current = text;
        Ok(Some((&self.current, seen_at)))
    }
}
