//! How many distinct identifiers and pairs a table has.
//!
//! A pair may lie in several segments, so counting means merging. Of a large table only some parts of
//! the hash space are read: hashes spread evenly, so the rest has as many.

use super::for_each_key;
use crate::cpu;
use crate::hash_partition::Part;
use crate::memtable::Commit;
use crate::sync::Mutex;
use crate::versions::TableVersion;
use idmatch_model::Side;
use idmatch_store::{Distinct, Result};

/// About so many rows are read in each direction.
const SAMPLE_ROWS: u64 = 1 << 20;

/// Counts what is visible, retention aside; `rows` is how many rows there are in a direction.
pub(crate) fn distinct(table: &TableVersion, last: Commit, rows: u64) -> Result<Distinct> {
    let all = Part::COUNT as u64;
    let parts = (SAMPLE_ROWS * all / rows.max(1)).clamp(1, all);
    let tasks: Vec<(Side, Part)> = Side::BOTH
        .into_iter()
        .flat_map(|side| Part::all().take(parts as usize).map(move |part| (side, part)))
        .collect();
    let sums = Mutex::new(Distinct::default());
    cpu::for_each(cpu::count(), &tasks, |(side, part)| {
        let (mut keys, mut values) = (0, 0);
        for_each_key(table, *side, *part, last, |_, mut merge| {
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
    let of_all = |count: u64| count * all / parts;
    Ok(Distinct {
        ids: of_all(sums.ids),
        partner_ids: of_all(sums.partner_ids),
        pairs: of_all(sums.pairs),
        is_exact: parts == all,
    })
}
