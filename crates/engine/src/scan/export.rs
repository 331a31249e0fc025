//! All observations of a table at one point, for copies and comparisons.
//!
//! Segments are ordered by the hash of the packed key, whose highest bits name the scan range of an id. So a
//! scan meets the ranges in their order. Must not know the use of the rows.

use super::for_each_observation;
use crate::cpu;
use crate::encoding::{HashSeed, Packed, Packer};
use crate::hash_partition::HashPartition;
use crate::matching::BatchBuilder;
use crate::memtable::Commit;
use crate::versions::TableVersion;
use idmatch_model::Side;
use idmatch_store::{Call, MatchSink, Result, SCAN_RANGES, ScanQuery, ScanRanges};

/// Scan ranges in each hash partition.
const RANGES_PER_PARTITION: usize = SCAN_RANGES / HashPartition::COUNT;

/// Sends the observations of some ranges that are in a window. Cost: the hash partitions with one of the
/// ranges are read once.
///
/// # Errors
/// `Corrupt`; the errors of the sink; `Cancelled`.
pub(crate) fn export(
    (table, last): (&TableVersion, Commit),
    (ranges, query): (&ScanRanges, ScanQuery),
    sink: &dyn MatchSink,
    call: &Call,
) -> Result<()> {
    let is_wanted = |partition: &HashPartition| {
        let first = usize::from(partition.0) * RANGES_PER_PARTITION;
        (first..first + RANGES_PER_PARTITION).any(|range| ranges.contains(range))
    };
    let wanted: Vec<HashPartition> = HashPartition::all().filter(is_wanted).collect();
    let seed = table.row_rules.seed;
    cpu::for_each_with(
        cpu::count(),
        &wanted,
        || Ok(BatchBuilder::of_columns(query.columns, sink.lane()?)),
        |batch, partition| {
            call.check()?;
            let take =
                |key: Packed<'_>, value: Packed<'_>, seen_at| match query.window.contains(seen_at)
                    && ranges.contains(range_of(key.hash(seed)))
                {
                    true => batch.push(key, value, seen_at),
                    false => Ok(()),
                };
            for_each_observation(table, Side::Id, *partition, last, call, take)?;
            let segments = table.segments_of(Side::Id, *partition);
            segments.iter().for_each(|segment| segment.give_back(*partition));
            Ok(())
        },
        BatchBuilder::finish,
    )
}

/// The scan range that an id is in.
pub(crate) fn range_of_id(id: &str, seed: HashSeed) -> usize {
    range_of(Packer::default().pack(id.as_bytes()).hash(seed))
}

fn range_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SCAN_RANGES.trailing_zeros())) as usize
}
