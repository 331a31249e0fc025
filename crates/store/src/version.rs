//! The version of a snapshot, as a token, and shares of a table that can be read separately.
//!
//! Must not know what a token is made of in any backend.

use crate::{Error, ErrorKind, Result, SCAN_RANGES, ScanRanges};
use idmatch_model::{SeenAt, TableId};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A version of a store, for equality only: within a process, equal versions show the same rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// The store.
    pub store: u128,
    /// The publication of its manifest.
    pub publication: u64,
    /// The newest journal file.
    pub journal: u128,
    /// The last commit.
    pub commit: u64,
}

/// `STORE.PUBLICATION.JOURNAL.COMMIT`, all in hex digits.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version { store, publication, journal, commit } = self;
        write!(f, "{store:032x}.{publication:016x}.{journal:032x}.{commit:x}")
    }
}

/// A share of a table: consecutive scan ranges at one version. It goes to other workers as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanSplit {
    /// The table.
    pub table: TableId,
    /// The version to be read; `None` on servers, whose rows are read as they are at the time.
    pub version: Option<Version>,
    /// The clock reading that the retention uses.
    pub at: SeenAt,
    /// The scan ranges.
    pub ranges: Range<usize>,
}

impl ScanSplit {
    /// Divides the table into `count` splits, or into [`SCAN_RANGES`] if these are fewer.
    pub fn divide(
        count: usize,
        table: TableId,
        version: Option<Version>,
        at: SeenAt,
    ) -> Vec<ScanSplit> {
        let count = count.clamp(1, SCAN_RANGES);
        let ranges = |n: usize| n * SCAN_RANGES / count..(n + 1) * SCAN_RANGES / count;
        (0..count).map(|n| ScanSplit { table, version, at, ranges: ranges(n) }).collect()
    }

    /// The scan ranges as a set.
    pub fn scan_ranges(&self) -> ScanRanges {
        ScanRanges::of(|range| self.ranges.contains(&range))
    }
}

/// `TABLE:VERSION:AT:FIRST-END`, all in hex digits; `VERSION` is `-` where there is none.
impl fmt::Display for ScanSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.table)?;
        match self.version {
            Some(version) => write!(f, "{version}")?,
            None => f.write_str("-")?,
        }
        write!(f, ":{:x}:{:x}-{:x}", self.at.millis(), self.ranges.start, self.ranges.end)
    }
}

impl FromStr for ScanSplit {
    type Err = Error;

    fn from_str(text: &str) -> Result<ScanSplit> {
        read(text).ok_or_else(|| {
            let what = "the text is no range of a scan; take one of scan_ranges";
            Error::new(ErrorKind::InvalidArgument, what)
        })
    }
}

fn read(text: &str) -> Option<ScanSplit> {
    let mut fields = text.split(':');
    let (table, version) = (wide(fields.next()?)?, fields.next()?);
    let (at, ranges) = (narrow(fields.next()?)?, fields.next()?);
    let (first, end) = ranges.split_once('-')?;
    let ranges = usize::try_from(narrow(first)?).ok()?..usize::try_from(narrow(end)?).ok()?;
    let is_valid =
        fields.next().is_none() && ranges.start < ranges.end && ranges.end <= SCAN_RANGES;
    let version = match version {
        "-" => None,
        version => {
            let mut fields = version.split('.');
            let version = Version {
                store: wide(fields.next()?)?,
                publication: narrow(fields.next()?)?,
                journal: wide(fields.next()?)?,
                commit: narrow(fields.next()?)?,
            };
            Some(version).filter(|_| fields.next().is_none())
        }
    };
    let at = SeenAt::from_millis(i64::try_from(at).ok()?).ok()?;
    is_valid.then_some(ScanSplit { table: TableId(table), version, at, ranges })
}

fn wide(text: &str) -> Option<u128> {
    u128::from_str_radix(text, 16).ok()
}

fn narrow(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}
