//! The second half of a load: the rows of some parts are sorted and written as segments.

use super::partition::{DATE_BYTES, Sides};
use super::{LoadPlace, next_name};
use crate::bytes::slice;
use crate::disk::prefetch;
use crate::packed::Packed;
use crate::part::Part;
use crate::record;
use crate::segment::{SegmentBuilder, SegmentInfo};
use idmatch_model::{Keep, SeenAt, Side};
use idmatch_store::{Error, ErrorKind, Result};
use std::cmp::Ordering;

/// How many rows ahead the next ones are fetched into the cache.
const AHEAD: usize = 12;

/// A row: its key's hash and where it starts.
#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    at: u32,
}

/// A row, read.
#[derive(Clone, Copy)]
struct Row<'a> {
    hash: u64,
    key: Packed<'a>,
    value: Packed<'a>,
    seen_at: SeenAt,
}

/// Writes the rows of neighbouring parts, which together have one prefix.
pub(crate) fn write_segments(
    place: &LoadPlace<'_>,
    keep: Keep,
    side: Side,
    prefix_bits: u8,
    parts: &[Part],
    sides: &Sides<'_>,
) -> Result<Vec<SegmentInfo>> {
    let prefix = parts.first().map_or(0, |part| part.first_hash());
    let mut written = Vec::new();
    let mut rows = Vec::new();
    let total: usize = parts
        .iter()
        .filter_map(|part| sides.part(side, *part))
        .flat_map(|part| &part.chunks)
        .map(|chunk| chunk.len())
        .sum();
    rows.reserve_exact(total.min(place.limits.run_bytes));
    let mut write = |rows: &mut Vec<u8>| -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let path = place.segments.join(next_name(place.next_file));
        written.push(sorted(rows, keep, side, prefix_bits, prefix)?.finish(place.disk, &path)?);
        rows.clear();
        Ok(())
    };
    for part in parts {
        let Some(chunks) = sides.part(side, *part).map(|part| &part.chunks) else { continue };
        for chunk in chunks {
            if rows.len() + chunk.len() > place.limits.run_bytes {
                write(&mut rows)?;
            }
            sides.read(side, *part, chunk, &mut rows)?;
        }
    }
    write(&mut rows)?;
    Ok(written)
}

/// Sorts rows into a segment, each pair or observation once.
fn sorted(
    rows: &[u8],
    keep: Keep,
    side: Side,
    prefix_bits: u8,
    prefix: u64,
) -> Result<SegmentBuilder> {
    let mut entries = entries(rows)?;
    // The 32 bits after the prefix order all but a few rows; those are ordered one by one below.
    let sort_key = |entry: &Entry| ((entry.hash << prefix_bits) >> 32) as u32;
    radsort::sort_by_key(&mut entries, sort_key);
    let mut segment = SegmentBuilder::new(side, prefix_bits, prefix, entries.len() as u64);
    let mut group = Vec::new();
    let mut rest = entries.as_slice();
    while let Some(first) = rest.first() {
        if let Some(ahead) = rest.get(AHEAD) {
            prefetch(rows, ahead.at as usize);
        }
        let alike = rest.iter().take_while(|entry| sort_key(entry) == sort_key(first)).count();
        let (these, others) = rest.split_at_checked(alike).unwrap_or((rest, &[]));
        rest = others;
        group.clear();
        for entry in these {
            group.push(row_at(rows, *entry)?.0);
        }
        if group.len() > 1 {
            settle(&mut group, keep);
        }
        let mut key = None;
        for row in &group {
            if key != Some(row.key) {
                segment.key(row.hash, row.key);
                key = Some(row.key);
            }
            segment.row(row.seen_at, row.value);
        }
    }
    Ok(segment)
}

fn entries(rows: &[u8]) -> Result<Vec<Entry>> {
    let mut entries = Vec::with_capacity(rows.len() / 32);
    let mut at = 0;
    while at < rows.len() {
        let (row, next) = row_at(rows, Entry { hash: 0, at: at as u32 })?;
        entries.push(Entry { hash: row.key.hash(), at: at as u32 });
        at = next;
    }
    Ok(entries)
}

fn row_at(rows: &[u8], entry: Entry) -> Result<(Row<'_>, usize)> {
    let read = || {
        let at = entry.at as usize;
        let mut millis = [0; 8];
        millis.get_mut(..DATE_BYTES)?.copy_from_slice(slice(rows, at, DATE_BYTES)?);
        let seen_at = SeenAt::from_millis(i64::from_le_bytes(millis)).ok()?;
        let (key, next) = record::read(rows, at + DATE_BYTES)?;
        let (value, next) = record::read(rows, next)?;
        Some((Row { hash: entry.hash, key, value, seen_at }, next))
    };
    // The rows were written by this process and their checksum held.
    read().ok_or_else(|| Error::new(ErrorKind::Corrupt, "rows of a load changed in memory"))
}

/// Removes what is not kept and puts the rest into the order of a segment.
fn settle(rows: &mut Vec<Row<'_>>, keep: Keep) {
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
