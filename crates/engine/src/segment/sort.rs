//! Sorts rows into a segment, without superseded, repeated and erased ones. Loads, flushes and compactions
//! collect rows in any order. Must not know retentions: `compaction::run` leaves expired rows out before.

use super::SegmentBuilder;
use crate::cpu::prefetch;
use crate::encoding::HashSeed;
use crate::encoding::rows::{self, Row};
use crate::tombstones::RowRules;
use idmatch_model::{Keep, Side};
use idmatch_store::{Call, Error, ErrorKind, Result};
use std::cmp::Ordering;

/// The number of rows by which prefetches are ahead.
const PREFETCH_AHEAD_ROWS: usize = 12;

/// Keys that are sorted between two checks of the call: less than 10 ms.
const KEYS_BETWEEN_CHECKS: usize = 1 << 14;

/// A row: the hash of its key, and its offset.
#[derive(Clone, Copy)]
struct SortEntry {
    hash: u64,
    at: u32,
}

/// Sorts rows whose key hashes all have this prefix into a segment: each pair or observation once, and no
/// erased row. All segments are made here.
///
/// # Errors
/// `Cancelled`.
pub(crate) fn sorted(
    rows: &[u8],
    row_rules: &RowRules,
    side: Side,
    (prefix_bits, prefix): (u8, u64),
    call: &Call,
) -> Result<SegmentBuilder> {
    let mut entries = entries(rows, row_rules.seed)?;
    // The 32 bits after the prefix order all but a few rows; those are ordered one by one below.
    let sort_key = |entry: &SortEntry| ((entry.hash << prefix_bits) >> 32) as u32;
    radsort::sort_by_key(&mut entries, sort_key);
    let mut segment =
        SegmentBuilder::new((side, row_rules.seed), prefix_bits, prefix, entries.len() as u64);
    let mut group = Vec::new();
    let (mut rest, mut keys) = (entries.as_slice(), 0usize);
    while let Some(first) = rest.first() {
        if keys.is_multiple_of(KEYS_BETWEEN_CHECKS) {
            call.check()?;
        }
        keys += 1;
        if let Some(ahead) = rest.get(PREFETCH_AHEAD_ROWS) {
            prefetch(rows, ahead.at as usize);
        }
        let same = rest.iter().take_while(|entry| sort_key(entry) == sort_key(first)).count();
        let (these, others) = rest.split_at_checked(same).unwrap_or((rest, &[]));
        rest = others;
        group.clear();
        for entry in these {
            group.push(row_at(rows, *entry)?.0);
        }
        if group.len() > 1 {
            sort_and_dedup(&mut group, row_rules.keep);
        }
        for of_key in group.chunk_by(|a, b| a.key == b.key) {
            let erased = of_key.first().and_then(|row| row_rules.tombstones.of_key(side, row.key));
            let mut is_begun = false;
            for row in of_key {
                if let Some(erased) = &erased
                    && erased.hides(row.seen_at, || Ok::<_, Error>(row.value))?
                {
                    continue;
                }
                if !is_begun {
                    segment.key(row.hash, row.key);
                    is_begun = true;
                }
                segment.row(row.seen_at, row.value);
            }
        }
    }
    Ok(segment)
}

fn entries(rows: &[u8], seed: HashSeed) -> Result<Vec<SortEntry>> {
    if u32::try_from(rows.len()).is_err() {
        let what = "more than 4 GiB of rows cannot be sorted at once";
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let mut entries = Vec::with_capacity(rows.len() / 32);
    let mut at = 0;
    while at < rows.len() {
        let (row, next) = row_at(rows, SortEntry { hash: 0, at: at as u32 })?;
        entries.push(SortEntry { hash: row.key.hash(seed), at: at as u32 });
        at = next;
    }
    Ok(entries)
}

fn row_at(bytes: &[u8], entry: SortEntry) -> Result<(Row<'_>, usize)> {
    // The rows were written by this process, or their checksum held.
    let (row, next) = rows::read(bytes, entry.at as usize)
        .ok_or_else(|| Error::new(ErrorKind::Corrupt, "rows changed in memory"))?;
    Ok((Row { hash: entry.hash, ..row }, next))
}

/// Removes rows that are not kept, and sorts the others into the order of a segment.
fn sort_and_dedup(rows: &mut Vec<Row<'_>>, keep: Keep) {
    rows.sort_unstable_by(|a, b| {
        by_key(a, b).then_with(|| by_value(a, b)).then_with(|| b.seen_at.cmp(&a.seen_at))
    });
    rows.dedup_by(|later, first| {
        later.key == first.key
            && later.value == first.value
            && (keep == Keep::Last || later.seen_at == first.seen_at)
    });
    rows.sort_unstable_by(|a, b| {
        by_key(a, b)
            .then_with(|| b.seen_at.cmp(&a.seen_at))
            .then_with(|| a.value.cmp_text(&b.value))
    });
}

fn by_key(a: &Row<'_>, b: &Row<'_>) -> Ordering {
    let order = |row: &Row<'_>| (row.hash, row.key.kind);
    order(a).cmp(&order(b)).then_with(|| a.key.payload.cmp(b.key.payload))
}

fn by_value(a: &Row<'_>, b: &Row<'_>) -> Ordering {
    a.value.kind.cmp(&b.value.kind).then_with(|| a.value.payload.cmp(b.value.payload))
}
