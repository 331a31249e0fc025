//! Order-independent checksums of a table: for each range, the number and the summed hashes of its
//! observations.
//!
//! Must not know which table is the source. Invariant: two tables with the same observations have the
//! same sums in any backend, because only texts and dates are hashed.

use crate::locks::Mutex;
use crate::{
    Call, Error, ErrorKind, MatchLane, MatchSink, Result, SCAN_RANGES, ScanRanges, TableSnapshot,
    Unit,
};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use idmatch_model::{ErasureKey, Period, SeenAt, Window};
use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::mpsc::SyncSender;
use twox_hash::XxHash3_128;

/// Rows that expire within 1/100 of the retention are not compared when a copy ends: they expire at
/// another moment in each table.
const EXPIRING_SHARE: u64 = 100;

/// The number of some observations and the sum of their hashes, which does not depend on their order.
///
/// A copy hashes texts, so that its sums are those of any backend: the XXH3 (128 bits) of two bytes
/// (little-endian) with the length of the id, the id, the partner_id, and eight bytes (little-endian)
/// with the milliseconds of seen_at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// The number of observations.
    pub rows: u64,
    /// The sum of their hashes.
    pub hash: u128,
}

impl Sum {
    /// Adds an observation by its hash.
    #[inline]
    pub fn add(&mut self, hash: u128) {
        self.rows += 1;
        self.hash = self.hash.wrapping_add(hash);
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Sum) {
        self.rows += other.rows;
        self.hash = self.hash.wrapping_add(other.hash);
    }
}

/// The sums of the observations of a range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RangeSum {
    /// The observations that do not expire during the copy.
    pub(super) stable: Sum,
    /// The observations that may expire during the copy.
    pub(super) expiring: Sum,
}

/// The sums of all ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RangeSums(Vec<RangeSum>);

impl RangeSums {
    pub(super) fn none() -> RangeSums {
        RangeSums(vec![RangeSum::default(); SCAN_RANGES])
    }

    pub(super) fn range(&self, range: usize) -> RangeSum {
        self.0.get(range).copied().unwrap_or_default()
    }

    /// The same, with the sums of some ranges replaced.
    pub(super) fn with(mut self, ranges: &ScanRanges, others: &RangeSums) -> RangeSums {
        for (range, sum) in self.0.iter_mut().enumerate() {
            if ranges.contains(range) {
                *sum = others.range(range);
            }
        }
        self
    }

    /// The sum of all stable observations.
    pub(super) fn stable(&self) -> Sum {
        let mut all = Sum::default();
        self.0.iter().for_each(|range| all += range.stable);
        all
    }

    /// The number of all observations.
    pub(super) fn all_rows(&self) -> u64 {
        self.0.iter().map(|range| range.stable.rows + range.expiring.rows).sum()
    }

    /// The number of ranges that differ in their stable observations.
    pub(super) fn differing(&self, other: &RangeSums) -> usize {
        self.count(other, |own, theirs| own.stable != theirs.stable)
    }

    /// The number of ranges that have more stable rows than in `other`.
    pub(super) fn ranges_with_more_than(&self, other: &RangeSums) -> usize {
        self.count(other, |own, theirs| own.stable.rows > theirs.stable.rows)
    }

    fn count(&self, other: &RangeSums, is_so: impl Fn(&RangeSum, &RangeSum) -> bool) -> usize {
        self.0.iter().zip(&other.0).filter(|(own, theirs)| is_so(own, theirs)).count()
    }

    fn add(&mut self, other: &RangeSums) {
        for (range, more) in self.0.iter_mut().zip(&other.0) {
            range.stable += more.stable;
            range.expiring += more.expiring;
        }
    }
}

/// Selects the observations to compare: not expired, and not erased meanwhile.
#[derive(Clone)]
pub(super) struct Compared {
    /// Older observations are expired.
    since: SeenAt,
    /// Newer observations do not expire during the copy.
    stable_since: SeenAt,
    /// The erasures since one of the tables was read.
    erased: Option<(ErasureKey, HashMap<u128, SeenAt>)>,
}

impl Compared {
    /// Selects observations that the retention shows in both tables, whose scans began before this call.
    pub(super) fn new(retention: Option<&Period>) -> Compared {
        let now = crate::now();
        let oldest = |now| retention.map_or(SeenAt::EPOCH, |period| period.before(now));
        let since = oldest(now);
        let expiring = now.millis_i64() + ((now.millis() - since.millis()) / EXPIRING_SHARE) as i64;
        let stable_since = oldest(SeenAt::from_millis(expiring).unwrap_or(now));
        Compared { since, stable_since, erased: None }
    }

    /// The same, without observations that were erased meanwhile.
    pub(super) fn without(self, key: ErasureKey, erased: HashMap<u128, SeenAt>) -> Compared {
        Compared { erased: Some((key, erased)), ..self }
    }

    /// Whether all observations that were stable in an earlier comparison are still compared.
    pub(super) fn is_within(&self, earlier: &Compared) -> bool {
        self.since <= earlier.stable_since && self.erased.is_none()
    }

    fn is_erased(&self, id: &str, partner_id: &str, seen_at: SeenAt) -> bool {
        let Some((key, erased)) = &self.erased else { return false };
        let hides = |hash: u128| erased.get(&hash).is_some_and(|at| seen_at <= *at);
        key.any_of(id.as_bytes(), partner_id.as_bytes(), hides)
    }
}

/// Sums up the rows of a scan, and passes them on where `forward` is set.
pub(super) struct Summation<'a> {
    /// The table whose ranges divide the ids.
    pub(super) division: &'a dyn TableSnapshot,
    pub(super) compared: &'a Compared,
    pub(super) call: &'a Call,
    pub(super) forward: Option<SyncSender<RecordBatch>>,
}

impl Summation<'_> {
    /// Reads some ranges of a table.
    pub(super) fn read(&self, table: &dyn TableSnapshot, ranges: &ScanRanges) -> Result<RangeSums> {
        let total = Mutex::new(RangeSums::none());
        let sink = SummationSink { summation: self, total: &total };
        table.scan(ranges, Window::ALL.into(), &sink, self.call)?;
        Ok(total.into_inner())
    }
}

struct SummationSink<'a> {
    summation: &'a Summation<'a>,
    total: &'a Mutex<RangeSums>,
}

impl MatchSink for SummationSink<'_> {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        let forward = self.summation.forward.clone();
        Ok(Box::new(SummationLane {
            sink: self,
            sums: RangeSums::none(),
            forward,
            row: Vec::new(),
        }))
    }
}

struct SummationLane<'a> {
    sink: &'a SummationSink<'a>,
    sums: RangeSums,
    forward: Option<SyncSender<RecordBatch>>,
    /// A row as the bytes that are hashed.
    row: Vec<u8>,
}

impl SummationLane<'_> {
    fn add(&mut self, range: usize, id: &str, partner_id: &str, seen_at: SeenAt) {
        let compared = self.sink.summation.compared;
        if seen_at < compared.since || compared.is_erased(id, partner_id, seen_at) {
            return;
        }
        self.row.clear();
        self.row.extend_from_slice(&(id.len() as u16).to_le_bytes());
        self.row.extend_from_slice(id.as_bytes());
        self.row.extend_from_slice(partner_id.as_bytes());
        self.row.extend_from_slice(&seen_at.millis().to_le_bytes());
        let hash = XxHash3_128::oneshot(&self.row);
        if let Some(sum) = self.sums.0.get_mut(range) {
            match seen_at < compared.stable_since {
                true => sum.expiring.add(hash),
                false => sum.stable.add(hash),
            }
        }
    }
}

impl MatchLane for SummationLane<'_> {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let Summation { division, call, .. } = self.sink.summation;
        let stage = if self.forward.is_some() { "copy" } else { "compare" };
        call.report(stage, batch.num_rows() as u64, Unit::Rows)?;
        {
            let columns = columns(&batch);
            let (ids, partner_ids, dates) =
                columns.ok_or_else(|| unexpected("a scan gave other columns than it should"))?;
            let (mut last, mut range) = ("", 0);
            for ((id, partner_id), date) in ids.iter().zip(partner_ids).zip(dates.values()) {
                let (id, partner_id) = (id.unwrap_or_default(), partner_id.unwrap_or_default());
                // The rows of an id mostly come one after another.
                if id != last {
                    (last, range) = (id, division.scan_range_of(id));
                }
                self.add(range, id, partner_id, SeenAt::from_millis(*date)?);
            }
        }
        match &self.forward {
            Some(forward) => forward.send(batch).map_err(|_| unexpected("the copy has ended")),
            None => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.sink.total.lock().add(&self.sums);
        Ok(())
    }
}

type ScanArrays<'b> = (
    &'b arrow_array::StringArray,
    &'b arrow_array::StringArray,
    &'b arrow_array::PrimitiveArray<TimestampMillisecondType>,
);

fn columns(batch: &RecordBatch) -> Option<ScanArrays<'_>> {
    match batch.columns() {
        [ids, partner_ids, dates] => Some((
            ids.as_string_opt()?,
            partner_ids.as_string_opt()?,
            dates.as_primitive_opt::<TimestampMillisecondType>()?,
        )),
        _ => None,
    }
}

fn unexpected(what: &str) -> Error {
    Error::new(ErrorKind::Source, what)
}
