//! What two tables are compared by: for each part the number of its observations and the sum of their
//! hashes, which does not depend on any order.
//!
//! Must not know which table is copied to which. Invariant: two tables with the same observations have
//! the same sums, whatever keeps them; the hashes are of texts and dates alone.

use super::progress::{Stage, Watch};
use crate::{Error, ErrorKind, MatchLane, MatchSink, PARTS, Parts, Result, Scan};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use idmatch_model::{ErasureKey, Period, SeenAt};
use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};
use twox_hash::XxHash3_128;

/// What a retention hides within so small a share of it is not compared at the end of a copy: it ends at
/// another moment in each table.
const SOON: u64 = 100;

/// Some observations: how many, and the sum of their hashes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub rows: u64,
    /// The sum of the XXH3 (128 bits) of each: two bytes (little-endian) with the length of the
    /// id, the id, the partner_id, and eight bytes (little-endian) with the milliseconds of seen_at.
    pub hash: u128,
}

impl Sum {
    fn add(&mut self, hash: u128) {
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

/// The observations of a part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PartSum {
    /// Those that will be seen for a while.
    pub(super) lasting: Sum,
    /// Those that a retention hides soon.
    pub(super) soon: Sum,
}

/// The sums of all parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sums(Vec<PartSum>);

impl Sums {
    pub(super) fn none() -> Sums {
        Sums(vec![PartSum::default(); PARTS])
    }

    pub(super) fn part(&self, part: usize) -> PartSum {
        self.0.get(part).copied().unwrap_or_default()
    }

    /// The same with other sums for some parts.
    pub(super) fn with(mut self, parts: &Parts, others: &Sums) -> Sums {
        for (part, sum) in self.0.iter_mut().enumerate() {
            if parts.contains(part) {
                *sum = others.part(part);
            }
        }
        self
    }

    /// All that lasts.
    pub(super) fn lasting(&self) -> Sum {
        let mut all = Sum::default();
        self.0.iter().for_each(|part| all += part.lasting);
        all
    }

    /// All that there are.
    pub(super) fn all_rows(&self) -> u64 {
        self.0.iter().map(|part| part.lasting.rows + part.soon.rows).sum()
    }

    /// How many parts differ, but for what a retention hides soon.
    pub(super) fn differing(&self, other: &Sums) -> usize {
        self.count(other, |own, theirs| own.lasting != theirs.lasting)
    }

    /// How many parts have more rows here than there.
    pub(super) fn parts_with_more_than(&self, other: &Sums) -> usize {
        self.count(other, |own, theirs| own.lasting.rows > theirs.lasting.rows)
    }

    fn count(&self, other: &Sums, is_so: impl Fn(&PartSum, &PartSum) -> bool) -> usize {
        self.0.iter().zip(&other.0).filter(|(own, theirs)| is_so(own, theirs)).count()
    }

    fn add(&mut self, other: &Sums) {
        for (part, more) in self.0.iter_mut().zip(&other.0) {
            part.lasting += more.lasting;
            part.soon += more.soon;
        }
    }
}

/// Which observations are compared.
#[derive(Clone)]
pub(super) struct Compared {
    /// None that are older: a retention hides them.
    since: SeenAt,
    /// From here on they last.
    lasting_since: SeenAt,
    /// None that were erased since one of the tables was read.
    erased: Option<(ErasureKey, HashMap<u128, SeenAt>)>,
}

impl Compared {
    /// What a retention leaves in both of two tables that were begun to be read before this is called.
    pub(super) fn new(retention: Option<&Period>) -> Compared {
        let now = crate::now();
        let oldest = |now| retention.map_or(SeenAt::EPOCH, |period| period.before(now));
        let since = oldest(now);
        let soon = now.millis_i64() + ((now.millis() - since.millis()) / SOON) as i64;
        let lasting_since = oldest(SeenAt::from_millis(soon).unwrap_or(now));
        Compared { since, lasting_since, erased: None }
    }

    /// The same without what was erased meanwhile.
    pub(super) fn without(self, key: ErasureKey, erased: HashMap<u128, SeenAt>) -> Compared {
        Compared { erased: Some((key, erased)), ..self }
    }

    /// Whether what lasted then still does.
    pub(super) fn is_within(&self, earlier: &Compared) -> bool {
        self.since <= earlier.lasting_since && self.erased.is_none()
    }

    fn is_erased(&self, id: &str, partner_id: &str, seen_at: SeenAt) -> bool {
        let Some((key, erased)) = &self.erased else { return false };
        let hides = |hash: u128| erased.get(&hash).is_some_and(|at| seen_at <= *at);
        key.any_of(id.as_bytes(), partner_id.as_bytes(), hides)
    }
}

/// Sums up what a scan reads, and passes it on where that is wanted.
pub(super) struct Summing<'a> {
    /// Whose parts they are summed up in.
    pub(super) division: &'a dyn Scan,
    pub(super) compared: &'a Compared,
    pub(super) watch: Watch<'a>,
    pub(super) pass_on: Option<SyncSender<RecordBatch>>,
}

impl Summing<'_> {
    /// Reads some parts of a table.
    pub(super) fn read(&self, scan: &dyn Scan, parts: &Parts) -> Result<Sums> {
        let total = Mutex::new(Sums::none());
        scan.read(parts, &Sink { summing: self, total: &total })?;
        Ok(total.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Sink<'a> {
    summing: &'a Summing<'a>,
    total: &'a Mutex<Sums>,
}

impl MatchSink for Sink<'_> {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        let pass_on = self.summing.pass_on.clone();
        Ok(Box::new(Lane { sink: self, sums: Sums::none(), pass_on, row: Vec::new() }))
    }
}

struct Lane<'a> {
    sink: &'a Sink<'a>,
    sums: Sums,
    pass_on: Option<SyncSender<RecordBatch>>,
    /// What is hashed of a row.
    row: Vec<u8>,
}

impl Lane<'_> {
    fn add(&mut self, part: usize, id: &str, partner_id: &str, seen_at: SeenAt) {
        let compared = self.sink.summing.compared;
        if seen_at < compared.since || compared.is_erased(id, partner_id, seen_at) {
            return;
        }
        self.row.clear();
        self.row.extend_from_slice(&(id.len() as u16).to_le_bytes());
        self.row.extend_from_slice(id.as_bytes());
        self.row.extend_from_slice(partner_id.as_bytes());
        self.row.extend_from_slice(&seen_at.millis().to_le_bytes());
        let hash = XxHash3_128::oneshot(&self.row);
        if let Some(sum) = self.sums.0.get_mut(part) {
            match seen_at < compared.lasting_since {
                true => sum.soon.add(hash),
                false => sum.lasting.add(hash),
            }
        }
    }
}

impl MatchLane for Lane<'_> {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let Summing { division, watch, .. } = self.sink.summing;
        let stage = if self.pass_on.is_some() { Stage::Copying } else { Stage::Comparing };
        watch(stage, batch.num_rows() as u64)?;
        {
            let columns = columns(&batch);
            let (ids, partner_ids, dates) =
                columns.ok_or_else(|| wrong("a scan gave other columns than it should"))?;
            let (mut last, mut part) = ("", 0);
            for ((id, partner_id), date) in ids.iter().zip(partner_ids).zip(dates.values()) {
                let (id, partner_id) = (id.unwrap_or_default(), partner_id.unwrap_or_default());
                // The rows of an id mostly follow one another.
                if id != last {
                    (last, part) = (id, division.part(id));
                }
                self.add(part, id, partner_id, SeenAt::from_millis(*date)?);
            }
        }
        match &self.pass_on {
            Some(pass_on) => pass_on.send(batch).map_err(|_| wrong("the copy has ended")),
            None => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.sink.total.lock().unwrap_or_else(PoisonError::into_inner).add(&self.sums);
        Ok(())
    }
}

type Columns<'b> = (
    &'b arrow_array::StringArray,
    &'b arrow_array::StringArray,
    &'b arrow_array::PrimitiveArray<TimestampMillisecondType>,
);

fn columns(batch: &RecordBatch) -> Option<Columns<'_>> {
    match batch.columns() {
        [ids, partner_ids, dates] => Some((
            ids.as_string_opt()?,
            partner_ids.as_string_opt()?,
            dates.as_primitive_opt::<TimestampMillisecondType>()?,
        )),
        _ => None,
    }
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Source, what)
}
