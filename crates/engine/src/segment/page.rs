//! Pages: a run of identifiers, or a run of dates, with a checksum in front.
//!
//! ```text
//! IDs    0 checksum u64 | 8 kind u8 | 9 zero | 10 width u16 | 12 count u32 | 16 body
//!        body: kinds, count x u8, if kind is MIXED
//!              ends, count x u32, if width is 0
//!              payloads, one after another
//! dates  0 checksum u64 | 8 base u64 | 16 unit u32 | 20 count u16 | 22 width u8 | 23 zero | 24 body
//!        body: count x width bytes; a date is base + unit * number
//! ```

use super::{Damage, Region, checksum};
use crate::encoding::bytes::{slice, u16_at, u32_at, u64_at};
use crate::encoding::{Kind, Packed};
use idmatch_model::SeenAt;

/// Bytes before an ID page's body.
pub(crate) const ID_HEADER: usize = 16;
/// Bytes before a date page's body.
pub(crate) const DATE_HEADER: usize = 24;
/// Stands for "each identifier has its own kind".
pub(crate) const MIXED: u8 = 0xff;

/// Identifiers of a page. Made from parts whose checksum was verified, or, for keys, from
/// a verified block header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdPage<'a> {
    kind: u8,
    width: u16,
    count: u32,
    body: &'a [u8],
}

impl<'a> IdPage<'a> {
    /// A page whose kind, width and count are known from elsewhere.
    pub(crate) fn described(
        kind: u8,
        width: u16,
        count: u32,
        page: &'a [u8],
    ) -> Option<IdPage<'a>> {
        Some(IdPage { kind, width, count, body: page.get(ID_HEADER..)? })
    }

    /// Verifies a page and reads its header.
    pub(crate) fn verified(
        region: Region,
        offset: usize,
        page: &'a [u8],
    ) -> Result<IdPage<'a>, Damage> {
        verify(region, offset, page)?;
        let read = || IdPage::described(*page.get(8)?, u16_at(page, 10)?, u32_at(page, 12)?, page);
        read().ok_or(Damage { region, offset, what: "a page of IDs is too short" })
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The identifier at `at`; `None` where the page has none or is damaged.
    #[inline(always)]
    pub(crate) fn get(&self, at: u32) -> Option<Packed<'a>> {
        if at >= self.count {
            return None;
        }
        let (at, count) = (at as usize, self.count as usize);
        let (kind, ends_at) = match self.kind {
            MIXED => (*self.body.get(at)?, count),
            kind => (kind, 0),
        };
        let kind = Kind::from_u8(kind)?;
        let payload = if self.width != 0 {
            let width = usize::from(self.width);
            slice(self.body, ends_at + at * width, width)?
        } else {
            let payloads = self.body.get(ends_at + count * 4..)?;
            let end = u32_at(self.body, ends_at + at * 4)? as usize;
            let start = match at {
                0 => 0,
                _ => u32_at(self.body, ends_at + (at - 1) * 4)? as usize,
            };
            payloads.get(start..end)?
        };
        Some(Packed { kind, payload })
    }

    /// Where in the page the payload of `at` starts, if that needs no further read.
    #[inline(always)]
    pub(crate) fn guess_offset(&self, at: u32) -> usize {
        let kinds = if self.kind == MIXED { self.count as usize } else { 0 };
        match self.width {
            0 => ID_HEADER + kinds + at as usize * 4,
            width => ID_HEADER + kinds + at as usize * usize::from(width),
        }
    }
}

/// Dates of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DatePage<'a> {
    base: u64,
    unit: u64,
    count: u32,
    width: usize,
    body: &'a [u8],
}

impl<'a> DatePage<'a> {
    /// Verifies a page and reads its header.
    pub(crate) fn verified(offset: usize, page: &'a [u8]) -> Result<DatePage<'a>, Damage> {
        verify(Region::Dates, offset, page)?;
        let read = || {
            let width = usize::from(*page.get(22)?);
            let body = page.get(DATE_HEADER..)?;
            let count = u16_at(page, 20)?;
            let fits = width <= 8 && body.len() == width * usize::from(count);
            let unit = u64::from(u32_at(page, 16)?);
            fits.then_some(DatePage {
                base: u64_at(page, 8)?,
                unit,
                count: u32::from(count),
                width,
                body,
            })
        };
        read().ok_or(Damage {
            region: Region::Dates,
            offset,
            what: "a page of dates contradicts itself",
        })
    }

    /// The date at `at`; `None` where the page has none or is damaged.
    #[inline(always)]
    pub(crate) fn get(&self, at: u32) -> Option<SeenAt> {
        // Equal dates take no bytes, so only the count tells where they end.
        if at >= self.count {
            return None;
        }
        let mut number = [0u8; 8];
        let bytes = slice(self.body, at as usize * self.width, self.width)?;
        number.get_mut(..self.width)?.copy_from_slice(bytes);
        let millis = self.unit.checked_mul(u64::from_le_bytes(number))?.checked_add(self.base)?;
        SeenAt::from_millis(i64::try_from(millis).ok()?).ok()
    }
}

/// Verifies a page without reading it.
pub(crate) fn verify(region: Region, offset: usize, page: &[u8]) -> Result<(), Damage> {
    let good = match (u64_at(page, 0), page.get(8..)) {
        (Some(sum), Some(rest)) => sum == checksum(region, offset, rest),
        _ => false,
    };
    good.then_some(()).ok_or(Damage { region, offset, what: "the checksum of a page is wrong" })
}

/// Collects the identifiers of a page.
#[derive(Debug, Default)]
pub(crate) struct IdPageBuilder {
    kinds: Vec<u8>,
    ends: Vec<u32>,
    payloads: Vec<u8>,
}

impl IdPageBuilder {
    pub(crate) fn push(&mut self, id: Packed<'_>) {
        self.kinds.push(id.kind as u8);
        self.payloads.extend_from_slice(id.payload);
        self.ends.push(self.payloads.len() as u32);
    }

    pub(crate) fn count(&self) -> usize {
        self.kinds.len()
    }

    /// Appends the page to its region, empties the builder, and returns kind and width.
    pub(crate) fn write(&mut self, region: Region, out: &mut Vec<u8>) -> (u8, u16) {
        let first = self.kinds.first().copied().unwrap_or(MIXED);
        let kind = if self.kinds.iter().all(|kind| *kind == first) { first } else { MIXED };
        let width = self.common_width();
        let offset = out.len();
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&[kind, 0]);
        out.extend_from_slice(&width.to_le_bytes());
        out.extend_from_slice(&(self.kinds.len() as u32).to_le_bytes());
        if kind == MIXED {
            out.extend_from_slice(&self.kinds);
        }
        if width == 0 {
            out.extend(self.ends.iter().flat_map(|end| end.to_le_bytes()));
        }
        out.extend_from_slice(&self.payloads);
        seal(region, offset, out);
        self.kinds.clear();
        self.ends.clear();
        self.payloads.clear();
        (kind, width)
    }

    /// The length of every payload, or 0 where they differ.
    fn common_width(&self) -> u16 {
        let width = self.ends.first().copied().unwrap_or(0);
        let same = self.ends.iter().zip(1..).all(|(end, n)| *end == width * n);
        if same { width as u16 } else { 0 }
    }
}

/// Appends a page of dates to its region.
pub(crate) fn write_dates(dates: &[SeenAt], out: &mut Vec<u8>) {
    let base = dates.iter().map(|date| date.millis()).min().unwrap_or(0);
    let largest = dates.iter().map(|date| date.millis() - base).max().unwrap_or(0);
    let unit = common_unit(dates.iter().map(|date| date.millis() - base));
    let width = (largest / u64::from(unit)).checked_ilog2().map_or(0, |bits| bits as usize / 8 + 1);
    let offset = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&base.to_le_bytes());
    out.extend_from_slice(&unit.to_le_bytes());
    out.extend_from_slice(&(dates.len() as u16).to_le_bytes());
    out.extend_from_slice(&[width as u8, 0]);
    for date in dates {
        let number = (date.millis() - base) / u64::from(unit);
        out.extend_from_slice(number.to_le_bytes().get(..width).unwrap_or_default());
    }
    seal(Region::Dates, offset, out);
}

/// The largest number of milliseconds that divides all; 1 where that needs more than 32 bits.
fn common_unit(offsets: impl Iterator<Item = u64>) -> u32 {
    let mut unit = 0u64;
    for offset in offsets {
        let (mut a, mut b) = (unit, offset);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        unit = a;
        if unit == 1 {
            break;
        }
    }
    u32::try_from(unit).unwrap_or(1).max(1)
}

/// Writes the checksum of a page into its first eight bytes.
fn seal(region: Region, offset: usize, out: &mut [u8]) {
    if let Some((sum, rest)) = out.get_mut(offset..).and_then(|page| page.split_at_mut_checked(8)) {
        sum.copy_from_slice(&checksum(region, offset, rest).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Packer;
    use proptest::prelude::*;

    fn ids(page: &IdPage<'_>) -> Vec<String> {
        (0..page.count())
            .map(|at| {
                let mut text = Vec::new();
                page.get(at).unwrap().unpack_into(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            })
            .collect()
    }

    proptest! {
        #[test]
        fn ids_come_back(texts in prop::collection::vec(
            prop_oneof!["[0-9a-f]{32}", "[1-9][0-9]{18}", "[a-z]{1,30}@x.example"], 1..50))
        {
            let mut builder = IdPageBuilder::default();
            for text in &texts {
                builder.push(Packer::default().pack(text.as_bytes()));
            }
            let mut out = vec![7; 3];
            builder.write(Region::Values, &mut out);
            let page = IdPage::verified(Region::Values, 3, &out[3..]).unwrap();
            prop_assert_eq!(ids(&page), texts);
        }

        #[test]
        fn dates_come_back(
            millis in prop::collection::vec(0i64..253_402_207_200_000, 1..50),
            unit in prop_oneof![Just(1i64), Just(1000), Just(86_400_000)],
        ) {
            let dates: Vec<SeenAt> =
                millis.iter().map(|ms| SeenAt::from_millis(ms / unit * unit).unwrap()).collect();
            let mut out = Vec::new();
            write_dates(&dates, &mut out);
            let page = DatePage::verified(0, &out).unwrap();
            let back: Vec<SeenAt> = (0..dates.len() as u32).map(|at| page.get(at).unwrap()).collect();
            prop_assert_eq!(back, dates);
            prop_assert_eq!(page.get(millis.len() as u32), None);
        }

        #[test]
        fn any_flipped_bit_is_found(bit in 0usize..(24 + 10) * 8) {
            let dates: Vec<SeenAt> =
                [5, 70_000].map(|ms| SeenAt::from_millis(ms).unwrap()).to_vec();
            let mut out = Vec::new();
            write_dates(&dates, &mut out);
            let bit = bit % (out.len() * 8);
            out[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(DatePage::verified(0, &out).is_err());
        }
    }
}
