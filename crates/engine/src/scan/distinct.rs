//! How many distinct identifiers and pairs a table has.
//!
//! A pair may lie in several segments, so counting means merging. Of a large table only some hash partitions
//! are read: hashes are uniform, so the other partitions have as many.

use super::for_each_key;
use crate::cpu;
use crate::hash_partition::HashPartition;
use crate::memtable::Commit;
use crate::sync::Mutex;
use crate::versions::TableVersion;
use idmatch_model::{Keep, Side};
use idmatch_store::{Call, Distinct, Result};

/// About how many rows of a sample are read in each direction.
const SAMPLE_ROWS: u64 = 1 << 20;

/// Counts from the headers of segments and from memtables, without reading rows. The counts are exact where
/// no two segments overlap, no row is hidden and no memtable has rows. Otherwise they are upper limits,
/// because a key may be in several of these. With [`Keep::All`] they are never exact, because each date of a
/// pair is a row.
pub(crate) fn distinct_at_most(table: &TableVersion) -> Distinct {
    let in_memory: u64 = table.memtables().iter().map(|memtable| memtable.rows()).sum();
    let keys = |side| table.segments(side).iter().map(|s| s.header.keys).sum::<u64>() + in_memory;
    let rows: u64 = table.segments(Side::Id).iter().map(|s| s.header.rows).sum();
    let is_alone = |partition| {
        Side::BOTH.iter().all(|side| {
            let mut ends = Vec::new();
            for segment in table.segments_of(*side, partition) {
                ends.push((segment.header.prefix, segment.header.prefix_bits));
            }
            ends.sort_unstable();
            ends.windows(2).all(|pair| match pair {
                [(first, bits), (next, _)] => {
                    next - first >= u64::MAX.checked_shr(u32::from(*bits)).unwrap_or(0)
                }
                _ => true,
            })
        })
    };
    Distinct {
        ids: keys(Side::Id),
        partner_ids: keys(Side::PartnerId),
        pairs: rows + in_memory,
        is_exact: table.row_rules.keep == Keep::Last
            && in_memory == 0
            && !table.all_segments().any(|segment| segment.has_hidden())
            && HashPartition::all().all(is_alone),
    }
}

/// Counts visible identifiers and pairs, retention aside. `rows` is the number of rows of the table: if a
/// sample has fewer, a share is read. With 0 all rows are read.
pub(crate) fn distinct(
    table: &TableVersion,
    last: Commit,
    rows: u64,
    call: &Call,
) -> Result<Distinct> {
    let all = HashPartition::COUNT as u64;
    let partitions = (SAMPLE_ROWS * all / rows.max(1)).clamp(1, all);
    let tasks: Vec<(Side, HashPartition)> = Side::BOTH
        .into_iter()
        .flat_map(|side| {
            HashPartition::all().take(partitions as usize).map(move |partition| (side, partition))
        })
        .collect();
    let sums = Mutex::new(Distinct::default());
    cpu::for_each(cpu::count(), &tasks, |(side, partition)| {
        call.check()?;
        let (mut keys, mut values) = (0, 0);
        for_each_key(table, *side, *partition, last, |_, mut merge| {
            let of_key = merge.count()?;
            keys += u64::from(of_key > 0);
            values += of_key;
            Ok(())
        })?;
        let mut sums = sums.lock();
        match side {
            Side::Id => (sums.ids, sums.pairs) = (sums.ids + keys, sums.pairs + values),
            Side::PartnerId => sums.partner_ids += keys,
        }
        Ok(())
    })?;
    let sums = *sums.lock();
    let of_all = |count: u64| count * all / partitions;
    Ok(Distinct {
        ids: of_all(sums.ids),
        partner_ids: of_all(sums.partner_ids),
        pairs: of_all(sums.pairs),
        is_exact: partitions == all,
    })
}
