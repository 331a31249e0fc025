//! Finds the rows that an erasure hides: their number, and their segments.

use crate::cpu;
use crate::encoding::{Kind, Packed, Packer};
use crate::lookup::{KeyLocation, ROWS_BETWEEN_CHECKS, locate};
use crate::memtable::Commit;
use crate::sync::Mutex;
use crate::versions::TableVersion;
use idmatch_model::{Keep, SeenAt, Side, Target, Window};
use idmatch_store::{Call, Erased, Result, Unit};
use std::collections::{BTreeMap, HashMap, HashSet};

/// An identifier that owns its bytes.
type OwnedId = (Kind, Box<[u8]>);
/// For each key, the values whose rows are erased.
type ErasedPairs = BTreeMap<OwnedId, HashSet<OwnedId>>;
/// A value, and a date it was seen with the key.
type DatedValue = (OwnedId, SeenAt);

/// The result of a search.
pub(crate) struct SearchResult {
    pub(crate) erased: Erased,
    /// The files of the segments with erased rows.
    pub(crate) files: HashSet<String>,
}

/// Counts, by direction, the rows in the visible window that an erasure of these targets up to a date hides.
/// Names the segments that have such rows, visible or not. Cost: a few lookups for each pair; memory: the
/// pairs.
pub(crate) fn search(
    (table, last): (&TableVersion, Commit),
    targets: &[Target],
    (at, shown): (SeenAt, Window),
    call: &Call,
) -> Result<SearchResult> {
    let search = Search { table, last, at, shown, call };
    let files = Mutex::new(HashSet::new());
    let pairs = Mutex::new((ErasedPairs::new(), ErasedPairs::new()));
    cpu::for_each(cpu::count(), targets, |target| {
        call.report("erase", 1, Unit::Rows)?;
        let found = search.pairs_of(target)?;
        let mut pairs = pairs.lock();
        for (id, partner_id) in found {
            pairs.0.entry(id.clone()).or_default().insert(partner_id.clone());
            pairs.1.entry(partner_id).or_default().insert(id);
        }
        Ok(())
    })?;
    let count = |side, pairs: &ErasedPairs| -> Result<u64> {
        let erased = Mutex::new(0);
        let pairs: Vec<_> = pairs.iter().collect();
        cpu::for_each(cpu::count(), &pairs, |(key, values)| {
            call.check()?;
            let (count, named) = search.rows_of(side, key, values)?;
            *erased.lock() += count;
            files.lock().extend(named);
            Ok(())
        })?;
        Ok(*erased.lock())
    };
    let (by_id, by_partner_id) = std::mem::take(&mut *pairs.lock());
    let erased = Erased {
        by_id: count(Side::Id, &by_id)?,
        by_partner_id: count(Side::PartnerId, &by_partner_id)?,
        checkpoints: Vec::new(),
    };
    let files = std::mem::take(&mut *files.lock());
    Ok(SearchResult { erased, files })
}

/// A search in a table for the rows of an erasure.
#[derive(Clone, Copy)]
struct Search<'t> {
    table: &'t TableVersion,
    last: Commit,
    /// The date of the erasure: later rows stay.
    at: SeenAt,
    /// The window of visible dates.
    shown: Window,
    call: &'t Call,
}

impl Search<'_> {
    /// The pairs of a target that were seen up to the date, as (id, partner_id).
    fn pairs_of(&self, target: &Target) -> Result<Vec<(OwnedId, OwnedId)>> {
        let mut packers = (Packer::default(), Packer::default());
        let (side, key, value) = match target {
            Target::Id(id) => (Side::Id, id, None),
            Target::PartnerId(partner_id) => (Side::PartnerId, partner_id, None),
            Target::Pair { id, partner_id } => {
                (Side::Id, id, Some(packers.1.pack(partner_id.as_bytes())))
            }
        };
        let key = packers.0.pack(key.as_bytes());
        let mut pairs = Vec::new();
        for location in locate(self.table, side, key, self.last)? {
            for_each_row(&location, self.call, |found, seen_at| {
                if seen_at <= self.at && value.is_none_or(|value| value == found) {
                    pairs.push(match side {
                        Side::Id => (owned(key), owned(found)),
                        Side::PartnerId => (owned(found), owned(key)),
                    });
                }
            })?;
        }
        Ok(pairs)
    }

    /// The number of hidden rows of a key with some values, and the files of these rows.
    fn rows_of(
        &self,
        side: Side,
        key: &OwnedId,
        values: &HashSet<OwnedId>,
    ) -> Result<(u64, Vec<String>)> {
        let Search { at, shown, .. } = *self;
        let (mut rows, mut files): (Vec<DatedValue>, _) = (Vec::new(), Vec::new());
        let key = Packed { kind: key.0, payload: &key.1 };
        for location in locate(self.table, side, key, self.last)? {
            let before = rows.len();
            for_each_row(&location, self.call, |value, seen_at| {
                let value = owned(value);
                if values.contains(&value) {
                    rows.push((value, seen_at));
                }
            })?;
            let some = rows.get(before..).unwrap_or_default().iter().any(|(_, date)| *date <= at);
            files.extend(location.file_name().filter(|_| some).map(str::to_owned));
        }
        if self.table.row_rules.keep == Keep::Last {
            // Only the newest row of a pair is visible.
            let mut newest: HashMap<OwnedId, SeenAt> = HashMap::new();
            for (value, seen_at) in rows {
                let date = newest.entry(value).or_insert(seen_at);
                *date = seen_at.max(*date);
            }
            let counts = |date: &&SeenAt| **date <= at && shown.contains(**date);
            return Ok((newest.values().filter(counts).count() as u64, files));
        }
        let counts = |(_, date): &DatedValue| *date <= at && shown.contains(*date);
        let distinct: HashSet<DatedValue> = rows.into_iter().filter(counts).collect();
        Ok((distinct.len() as u64, files))
    }
}

fn for_each_row(
    location: &KeyLocation,
    call: &Call,
    mut take: impl FnMut(Packed<'_>, SeenAt),
) -> Result<()> {
    let (mut rows, mut read) = (location.cursor()?, 0usize);
    while let Some(seen_at) = rows.date()? {
        read += 1;
        if read.is_multiple_of(ROWS_BETWEEN_CHECKS) {
            call.check()?;
        }
        take(rows.value()?, seen_at);
        rows.advance();
    }
    Ok(())
}

fn owned(id: Packed<'_>) -> OwnedId {
    (id.kind, id.payload.into())
}
