//! How many distinct identifiers and pairs a table has.
//!
//! A pair may lie in several segments, so counting means merging. Of a large table only some hash partitions
//! are read: hashes are uniform, so the others have as many.

use super::for_each_key;
use crate::cpu;
use crate::hash_partition::HashPartition;
use crate::memtable::Commit;
use crate::sync::Mutex;
use crate::versions::TableVersion;
use idmatch_model::Side;
use idmatch_store::{Call, Distinct, Result};

/// About how many rows are read in each direction.
const SAMPLE_ROWS: u64 = 1 << 20;

/// Counts visible identifiers and pairs, retention aside; `rows` is the number of rows of a direction.
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
