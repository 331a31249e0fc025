//! Checks all of a segment: every checksum, every order, every count.

use super::page::verify;
use super::{Block, Damage, PAGE_ROWS, Region, Segment};
use crate::encoding::Packed;
use idmatch_model::SeenAt;
use idmatch_store::{Call, Result, Unit};

/// Blocks, a few KiB each, between two reports of progress.
const BLOCKS_BETWEEN_REPORTS: u32 = 256;

impl Segment {
    /// Reads the whole segment.
    ///
    /// # Errors
    /// `Corrupt` with the file and the offset of the first fault; `Cancelled`.
    pub(crate) fn check(&self, call: &Call) -> Result<()> {
        self.check_opening()?;
        let (mut keys, mut rows, mut reported) = (0u64, 0u64, 0u64);
        let bytes = self.header.file_len();
        for number in 0..1u32 << self.header.block_bits {
            if number > 0 && number % BLOCKS_BETWEEN_REPORTS == 0 {
                let share = (bytes >> self.header.block_bits) * u64::from(BLOCKS_BETWEEN_REPORTS);
                reported += share;
                call.report("verify", share, Unit::Bytes)?;
            }
            if let Some(block) = self.block(number)? {
                self.check_block(number, &block)?;
                keys += u64::from(block.keys);
                rows += u64::from(block.rows);
            }
        }
        if (keys, rows) != (self.header.keys, self.header.rows) {
            return Err(self.wrong(Region::Header, 0, "the header counts other keys or rows"));
        }
        call.report("verify", bytes.saturating_sub(reported), Unit::Bytes)
    }

    /// A key of a block.
    ///
    /// # Errors
    /// `Corrupt` where it cannot be read.
    pub(crate) fn key<'s>(&'s self, block: &Block<'s>, at: u32) -> Result<Packed<'s>> {
        block.key_page(self.region(Region::Keys)).and_then(|page| page.get(at)).ok_or_else(|| {
            self.wrong(Region::Keys, block.key_page_range().0, "a page has too few keys")
        })
    }

    fn wrong(&self, region: Region, offset: usize, what: &'static str) -> idmatch_store::Error {
        self.damaged(Damage { region, offset, what })
    }

    fn check_block(&self, number: u32, block: &Block<'_>) -> Result<()> {
        let at = self.block_header_range(number).start;
        let (offset, len) = block.key_page_range();
        let page = crate::encoding::bytes::slice(self.region(Region::Keys), offset, len)
            .unwrap_or_default();
        verify(Region::Keys, offset, page).map_err(|damage| self.damaged(damage))?;
        let mut last_key = None;
        let mut last_row = 0;
        for number_in_block in 0..block.keys {
            let key = self.key(block, number_in_block)?;
            let hash = key.hash(self.seed());
            let placed = self.header.covers(hash)
                && self.header.block_of(hash) == number
                && block.fingerprint(number_in_block) == Some(self.header.fingerprint_of(hash));
            if !placed {
                return Err(self.wrong(Region::Keys, offset, "a key is not where its hash is"));
            }
            let place = (hash, key.kind, key.payload);
            if last_key.is_some_and(|last| last >= place) {
                return Err(self.wrong(Region::Keys, offset, "keys are out of order"));
            }
            last_key = Some(place);
            let rows = block.rows_of(number_in_block);
            if rows.is_empty() || rows.start != last_row {
                return Err(self.wrong(
                    Region::BlockHeaders,
                    at,
                    "the rows of a key are not its own",
                ));
            }
            last_row = rows.end;
        }
        if last_row != block.rows {
            return Err(self.wrong(Region::BlockHeaders, at, "some rows belong to no key"));
        }
        self.check_rows(block)
    }

    /// Verifies the pages, and the order of the rows of each key.
    fn check_rows(&self, block: &Block<'_>) -> Result<()> {
        let (values, dates) = (self.region(Region::Values), self.region(Region::Dates));
        let mut last: Option<(SeenAt, Packed<'_>)> = None;
        let mut starts = (0..block.keys).map(|key| block.rows_of(key).start).peekable();
        for page in 0..block.rows.div_ceil(PAGE_ROWS) {
            let ids = block.values(page, values).map_err(|damage| self.damaged(damage))?;
            let seen = block.dates(page, dates).map_err(|damage| self.damaged(damage))?;
            let first = page * PAGE_ROWS;
            let count = (block.rows - first).min(PAGE_ROWS);
            let ((ids_at, _), _) = block.page_ranges(page).unwrap_or_default();
            if ids.count() != count {
                return Err(self.wrong(
                    Region::Values,
                    ids_at,
                    "a page has other rows than its block",
                ));
            }
            for row in 0..count {
                let (Some(value), Some(date)) = (ids.get(row), seen.get(row)) else {
                    return Err(self.wrong(Region::Values, ids_at, "a row cannot be read"));
                };
                if starts.next_if_eq(&(first + row)).is_some() {
                    last = None;
                }
                let ordered = last.is_none_or(|(newer, before)| {
                    newer > date || (newer == date && before.cmp_text(&value).is_lt())
                });
                if !ordered {
                    return Err(self.wrong(Region::Values, ids_at, "rows are out of order"));
                }
                last = Some((date, value));
            }
        }
        Ok(())
    }
}
