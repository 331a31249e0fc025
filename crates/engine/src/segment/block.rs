//! Blocks: the keys whose hashes share a prefix, with their rows.
//!
//! ```text
//! header   0 checksum u64 | 8 keys u32 | 12 rows u32 | 16 key page: offset u32, length u32
//!       24 its kind u8 | 25 zero | 26 its width u16
//!       28 pages, ceil(rows / 1024) x (value offset, length, date offset, length, 4 x u32)
//!          fingerprints, keys x u16
//!          row_count_delta, keys x (0, 1, 2 or 4 bytes, see [`count_delta_width`])
//! ```
//! The delta of a key is how many more rows than keys there are up to and including it:
//! its rows end at (its number + 1 + row_count_delta). Where every key has one row it takes no room.
//! Offsets count from the start of the region. Keys are in the order of their hashes, then
//! of their bytes; the rows of a key come newest first, ties by the text of the value.

use super::page::{DatePage, IdPage};
use super::{Damage, PAGE_ROWS, Region, checksum};
use crate::encoding::bytes::{slice, u16_at, u32_at, u64_at};
use std::ops::Range;

/// Bytes before the page table.
pub(crate) const BLOCK_HEADER_FIXED: usize = 28;
/// Bytes of an entry of the page table.
pub(crate) const PAGE_ENTRY: usize = 16;

/// A verified header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) keys: u32,
    pub(crate) rows: u32,
    key_page: (u32, u32),
    kind: u8,
    width: u16,
    pages: &'a [u8],
    fingerprints: &'a [u8],
    row_count_delta: &'a [u8],
}

/// How many fingerprints are searched at once.
const WINDOW: usize = 32;

/// How many fingerprints are smaller. They are uniform, so the place of one can be guessed to
/// within a few; that neighbourhood is searched without a branch.
#[inline(always)]
fn lower_bound(fingerprints: &[[u8; 2]], fingerprint: u16) -> usize {
    let smaller = |r: &[u8; 2]| u16::from_le_bytes(*r) < fingerprint;
    let guess = (usize::from(fingerprint) * fingerprints.len()) >> 16;
    let last_start = fingerprints.len().saturating_sub(WINDOW);
    let start = guess.saturating_sub(WINDOW / 2).min(last_start);
    if let Some(near) = fingerprints.get(start..).and_then(|rest| rest.first_chunk::<WINDOW>()) {
        let count = near.iter().map(|r| u16::from(smaller(r))).sum::<u16>();
        let starts_before = count > 0 || start == 0;
        let ends_after = usize::from(count) < WINDOW || start == last_start;
        if starts_before && ends_after {
            return start + usize::from(count);
        }
    }
    fingerprints.partition_point(smaller)
}

/// Bytes of a key's row_count_delta in a block with that many more rows than keys.
pub(crate) fn count_delta_width(row_count_delta: u32) -> usize {
    match row_count_delta {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

/// Where a page lies in its region.
pub(crate) type PageRange = (usize, usize);

impl<'a> Block<'a> {
    /// Verifies and reads a header.
    pub(crate) fn read(offset: usize, header: &'a [u8]) -> Result<Block<'a>, Damage> {
        let damage = |what| Damage { region: Region::BlockHeaders, offset, what };
        let good = match (u64_at(header, 0), header.get(8..)) {
            (Some(sum), Some(rest)) => sum == checksum(Region::BlockHeaders, offset, rest),
            _ => false,
        };
        if !good {
            return Err(damage("the checksum of a block is wrong"));
        }
        Block::fields(header).ok_or(damage("the header of a block contradicts itself"))
    }

    /// Reads a header without verifying it: for hints only.
    #[inline(always)]
    pub(crate) fn unverified(header: &'a [u8]) -> Option<Block<'a>> {
        Block::fields(header)
    }

    fn fields(header: &'a [u8]) -> Option<Block<'a>> {
        let (keys, rows) = (u32_at(header, 8)?, u32_at(header, 12)?);
        let pages_len = rows.div_ceil(PAGE_ROWS) as usize * PAGE_ENTRY;
        let pages = slice(header, BLOCK_HEADER_FIXED, pages_len)?;
        let fingerprints = slice(header, BLOCK_HEADER_FIXED + pages_len, keys as usize * 2)?;
        let row_count_delta = header.get(BLOCK_HEADER_FIXED + pages_len + fingerprints.len()..)?;
        let expected = count_delta_width(rows.checked_sub(keys)?) * keys as usize;
        (row_count_delta.len() == expected).then_some(())?;
        Some(Block {
            keys,
            rows,
            key_page: (u32_at(header, 16)?, u32_at(header, 20)?),
            kind: *header.get(24)?,
            width: u16_at(header, 26)?,
            pages,
            fingerprints,
            row_count_delta,
        })
    }

    /// The keys whose hash has this fingerprint, as a range of their numbers.
    #[inline(always)]
    pub(crate) fn find(&self, fingerprint: u16) -> Range<u32> {
        let (fingerprints, _) = self.fingerprints.as_chunks::<2>();
        let start = lower_bound(fingerprints, fingerprint);
        let rest = fingerprints.get(start..).unwrap_or_default();
        let is_same = |r: &[u8; 2]| u16::from_le_bytes(*r) == fingerprint;
        let mut same = rest.iter().take(WINDOW).take_while(|r| is_same(r)).count();
        if same == WINDOW {
            same = rest.partition_point(is_same);
        }
        start as u32..(start + same) as u32
    }

    pub(crate) fn fingerprint(&self, key: u32) -> Option<u16> {
        u16_at(self.fingerprints, key as usize * 2)
    }

    /// The rows of a key, as a range of their numbers in the block.
    #[inline(always)]
    pub(crate) fn rows_of(&self, key: u32) -> Range<u32> {
        let at = key as usize;
        let row_count_delta = |at: usize| match count_delta_width(self.rows - self.keys) {
            0 => Some(0),
            1 => self.row_count_delta.get(at).copied().map(u32::from),
            2 => u16_at(self.row_count_delta, at * 2).map(u32::from),
            _ => u32_at(self.row_count_delta, at * 4),
        };
        // The header was verified: every key has a delta, and no key before it a larger one.
        let before = at.checked_sub(1).and_then(row_count_delta).unwrap_or(0);
        key.saturating_add(before)
            ..key.saturating_add(1).saturating_add(row_count_delta(at).unwrap_or(0))
    }

    /// Where the page of keys lies in its region.
    pub(crate) fn key_page_range(&self) -> PageRange {
        (self.key_page.0 as usize, self.key_page.1 as usize)
    }

    /// The page of keys, not verified: see the module documentation of `segment`.
    #[inline(always)]
    pub(crate) fn key_page<'b>(&self, keys: &'b [u8]) -> Option<IdPage<'b>> {
        let (offset, len) = self.key_page_range();
        IdPage::described(self.kind, self.width, self.keys, slice(keys, offset, len)?)
    }

    /// Where the pages of values and dates with this number lie in their regions.
    pub(crate) fn page_ranges(&self, page: u32) -> Option<(PageRange, PageRange)> {
        let at = page as usize * PAGE_ENTRY;
        let field = |n: usize| u32_at(self.pages, at + n * 4).map(|n| n as usize);
        Some(((field(0)?, field(1)?), (field(2)?, field(3)?)))
    }

    /// Verifies and reads a page of values.
    pub(crate) fn values<'b>(&self, page: u32, values: &'b [u8]) -> Result<IdPage<'b>, Damage> {
        let damage = |offset| Damage {
            region: Region::Values,
            offset,
            what: "a page of values lies outside of its region",
        };
        let ((offset, len), _) = self.page_ranges(page).ok_or(damage(0))?;
        let page = slice(values, offset, len).ok_or(damage(offset))?;
        IdPage::verified(Region::Values, offset, page)
    }

    /// Verifies and reads a page of dates.
    pub(crate) fn dates<'b>(&self, page: u32, dates: &'b [u8]) -> Result<DatePage<'b>, Damage> {
        let damage = |offset| Damage {
            region: Region::Dates,
            offset,
            what: "a page of dates lies outside of its region",
        };
        let (_, (offset, len)) = self.page_ranges(page).ok_or(damage(0))?;
        DatePage::verified(offset, slice(dates, offset, len).ok_or(damage(offset))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_guess_finds_what_a_search_finds(
            mut fingerprints in prop::collection::vec(any::<u16>(), 0..400),
            clustered in any::<bool>(),
            distinct in 1..64u16,
            wanted in any::<u16>(),
        ) {
            if clustered {
                fingerprints.iter_mut().for_each(|r| *r %= distinct);
            }
            fingerprints.sort_unstable();
            let bytes: Vec<[u8; 2]> = fingerprints.iter().map(|r| r.to_le_bytes()).collect();
            let block = Block {
                keys: bytes.len() as u32,
                rows: bytes.len() as u32,
                key_page: (0, 0),
                kind: 0,
                width: 0,
                pages: &[],
                fingerprints: bytes.as_flattened(),
                row_count_delta: &[],
            };
            for wanted in fingerprints.iter().copied().chain([wanted, 0, 63, 64, u16::MAX]) {
                let expected = fingerprints.partition_point(|r| *r < wanted);
                prop_assert_eq!(lower_bound(&bytes, wanted), expected);
                let end = fingerprints.partition_point(|r| *r <= wanted);
                prop_assert_eq!(block.find(wanted), expected as u32..end as u32);
            }
        }
    }
}
