//! The rows of one key in one segment, newest first.

use crate::packed::Packed;
use crate::segment::{Block, Damage, DatePage, IdPage, PAGE_ROWS, Region, Segment};
use idmatch_model::SeenAt;
use idmatch_store::Result;
use std::ops::Range;

/// Reads rows in order; pages are read and verified when their first row is.
#[derive(Clone)]
pub(crate) struct RowCursor<'s> {
    segment: &'s Segment,
    block: Block<'s>,
    rows: Range<u32>,
    dates: Option<(u32, DatePage<'s>)>,
    values: Option<(u32, IdPage<'s>)>,
}

impl<'s> RowCursor<'s> {
    pub(crate) fn new(segment: &'s Segment, block: Block<'s>, rows: Range<u32>) -> RowCursor<'s> {
        RowCursor { segment, block, rows, dates: None, values: None }
    }

    /// The same block and pages, other rows.
    pub(crate) fn moved_to(mut self, rows: Range<u32>) -> RowCursor<'s> {
        self.rows = rows;
        self
    }

    /// The rows that are left.
    pub(crate) fn rows(&self) -> Range<u32> {
        self.rows.clone()
    }

    /// Goes on to the next row.
    pub(crate) fn advance(&mut self) {
        self.rows.start += 1;
    }

    /// The date of the current row, or `None` after the last.
    pub(crate) fn date(&mut self) -> Result<Option<SeenAt>> {
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

    /// The value of the current row.
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
