//! The rows of one key in one segment, newest first.
//!
//! A cursor returns all stored rows. After [`RowCursor::skipping_hidden`] it skips hidden rows: those that
//! tombstones hide, and those below the segment's retention watermark. No other place leaves them out of
//! answers. A segment without hidden rows costs no check. Must not know other segments, `keep` or windows.
//! Invariant: a page is verified before a row of it is given.

use crate::encoding::Packed;
use crate::segment::{Block, Damage, DatePage, IdPage, PAGE_ROWS, Region, Segment};
use crate::tombstones::KeyTombstones;
use idmatch_model::SeenAt;
use idmatch_store::Result;
use std::ops::Range;
use std::sync::Arc;

/// Reads rows in order. A page is read and verified with its first row.
#[derive(Clone)]
pub(crate) struct RowCursor<'s> {
    segment: &'s Segment,
    block: Block<'s>,
    rows: Range<u32>,
    dates: Option<(u32, DatePage<'s>)>,
    values: Option<(u32, IdPage<'s>)>,
    /// Whether rows that are hidden since the segment was written are skipped.
    skips_hidden: bool,
    /// The tombstones that may hide rows of the key.
    erased: Option<Arc<KeyTombstones>>,
}

impl<'s> RowCursor<'s> {
    /// All stored rows, hidden ones included.
    pub(crate) fn new(segment: &'s Segment, block: Block<'s>, rows: Range<u32>) -> RowCursor<'s> {
        RowCursor {
            segment,
            block,
            rows,
            dates: None,
            values: None,
            skips_hidden: false,
            erased: None,
        }
    }

    /// Skips the rows that are hidden since the segment was written: erased, or below the watermark.
    pub(crate) fn skipping_hidden(mut self, erased: Option<Arc<KeyTombstones>>) -> RowCursor<'s> {
        self.skips_hidden = self.segment.has_hidden();
        self.erased = erased;
        self
    }

    /// A cursor of the same block and pages, over the stored rows of another key.
    pub(crate) fn moved_to(mut self, rows: Range<u32>) -> RowCursor<'s> {
        self.rows = rows;
        self.skips_hidden = false;
        self.erased = None;
        self
    }

    /// The remaining rows.
    pub(crate) fn rows(&self) -> Range<u32> {
        self.rows.clone()
    }

    /// Goes on to the next row.
    pub(crate) fn advance(&mut self) {
        self.rows.start += 1;
    }

    /// Whether there is a row. Hidden rows are skipped.
    pub(crate) fn has_row(&mut self) -> Result<bool> {
        match self.skips_hidden {
            true => Ok(self.date()?.is_some()),
            false => Ok(!self.rows.is_empty()),
        }
    }

    /// The date of the current row, or `None` after the last. Hidden rows are skipped.
    pub(crate) fn date(&mut self) -> Result<Option<SeenAt>> {
        while let Some(seen_at) = self.stored_date()? {
            if !self.skips_hidden {
                return Ok(Some(seen_at));
            }
            if self.segment.is_below_watermark(seen_at) {
                // All later rows are older still.
                self.rows.start = self.rows.end;
                break;
            }
            match self.erased.clone() {
                Some(erased) if erased.hides(seen_at, || self.value())? => self.advance(),
                _ => return Ok(Some(seen_at)),
            }
        }
        Ok(None)
    }

    fn stored_date(&mut self) -> Result<Option<SeenAt>> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let number = self.rows.start / PAGE_ROWS;
        let page = match self.dates {
            Some((loaded, page)) if loaded == number => page,
            _ => {
                let dates = self.segment.region(Region::Dates);
                let page = self.block.dates(number, dates).map_err(|d| self.segment.damaged(d))?;
                self.dates = Some((number, page));
                page
            }
        };
        match page.get(self.rows.start % PAGE_ROWS) {
            Some(date) => Ok(Some(date)),
            None => Err(self.missing(Region::Dates)),
        }
    }

    /// The value of the current row: asked after [`RowCursor::has_row`] or [`RowCursor::date`].
    pub(crate) fn value(&mut self) -> Result<Packed<'s>> {
        let number = self.rows.start / PAGE_ROWS;
        let page = match self.values {
            Some((loaded, page)) if loaded == number => page,
            _ => {
                let values = self.segment.region(Region::Values);
                let page =
                    self.block.values(number, values).map_err(|d| self.segment.damaged(d))?;
                self.values = Some((number, page));
                page
            }
        };
        page.get(self.rows.start % PAGE_ROWS).ok_or_else(|| self.missing(Region::Values))
    }

    fn missing(&self, region: Region) -> idmatch_store::Error {
        let what = "a page has fewer rows than its block";
        self.segment.damaged(Damage { region, offset: 0, what })
    }
}

/// The block that was read last in each segment, with its pages: neighbouring keys share one
/// verification. One remembered cursor for each segment of a list.
pub(crate) struct BlockCache<'s> {
    segments: &'s [Arc<Segment>],
    last: Vec<Option<(u32, RowCursor<'s>)>>,
}

impl<'s> BlockCache<'s> {
    pub(crate) fn new(segments: &'s [Arc<Segment>]) -> BlockCache<'s> {
        BlockCache { segments, last: segments.iter().map(|_| None).collect() }
    }

    /// A cursor over rows of a block of the segment with this number in the list, without those
    /// that were erased.
    pub(crate) fn rows(
        &mut self,
        segment: u32,
        block: u32,
        rows: Range<u32>,
        erased: Option<Arc<KeyTombstones>>,
    ) -> Result<&mut RowCursor<'s>> {
        let at = segment as usize;
        let (Some(segment), Some(last)) = (self.segments.get(at), self.last.get_mut(at)) else {
            return Err(idmatch_store::Error::new(
                idmatch_store::ErrorKind::InvalidArgument,
                format!("there is no segment number {at}"),
            ));
        };
        let cursor = match last.take() {
            Some((number, cursor)) if number == block => cursor.moved_to(rows),
            _ => RowCursor::new(segment, segment.known_block(block)?, rows),
        };
        Ok(&mut last.insert((block, cursor.skipping_hidden(erased))).1)
    }
}
