//! The version of a snapshot, as a token, and shares of a table that can be read separately.
//!
//! Must not know what a token is made of in any backend.

use crate::{Error, ErrorKind, PARTS, Parts, Result};
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

/// A share of a table: a run of its parts at one version. It goes to other workers as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanRange {
    /// The table.
    pub table: TableId,
    /// The version to be read; `None` on servers, whose rows are read as they are at the time.
    pub version: Option<Version>,
    /// The clock reading that the retention uses.
    pub at: SeenAt,
    /// The parts.
    pub parts: Range<usize>,
}

impl ScanRange {
    /// Divides the table into `count` ranges, or into [`PARTS`] if these are fewer.
    pub fn divide(
        count: usize,
        table: TableId,
        version: Option<Version>,
        at: SeenAt,
    ) -> Vec<ScanRange> {
        let count = count.clamp(1, PARTS);
        let parts = |n: usize| n * PARTS / count..(n + 1) * PARTS / count;
        (0..count).map(|n| ScanRange { table, version, at, parts: parts(n) }).collect()
    }

    /// The parts as a set.
    pub fn parts(&self) -> Parts {
        Parts::of(|part| self.parts.contains(&part))
    }
}

/// `TABLE:VERSION:AT:FIRST-END`, all in hex digits; `VERSION` is `-` where there is none.
impl fmt::Display for ScanRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.table)?;
        match self.version {
            Some(version) => write!(f, "{version}")?,
            None => f.write_str("-")?,
        }
        write!(f, ":{:x}:{:x}-{:x}", self.at.millis(), self.parts.start, self.parts.end)
    }
}

impl FromStr for ScanRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<ScanRange> {
        read(text).ok_or_else(|| {
            let what = "the text is no range of a scan; take one of scan_ranges";
            Error::new(ErrorKind::InvalidArgument, what)
        })
    }
}

fn read(text: &str) -> Option<ScanRange> {
    let mut fields = text.split(':');
    let (table, version) = (wide(fields.next()?)?, fields.next()?);
    let (at, parts) = (narrow(fields.next()?)?, fields.next()?);
    let (first, end) = parts.split_once('-')?;
    let parts = usize::try_from(narrow(first)?).ok()?..usize::try_from(narrow(end)?).ok()?;
    let is_whole = fields.next().is_none() && parts.start < parts.end && parts.end <= PARTS;
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
    is_whole.then_some(ScanRange { table: TableId(table), version, at, parts })
}

fn wide(text: &str) -> Option<u128> {
    u128::from_str_radix(text, 16).ok()
}

fn narrow(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}
