//! How many distinct identifiers and pairs a table has.
//!
//! A pair may lie in several segments, so counting means merging. Of a large table only some parts of
//! the hash space are read: hashes spread evenly, so the rest has as many.

use super::view::TableView;
use super::walk::for_each_key;
use crate::memtable::Commit;
use crate::part::Part;
use crate::workers::{self, lock};
use idmatch_model::Side;
use idmatch_store::{Distinct, Result};
use std::sync::Mutex;

/// About so many rows are read in each direction.
const SAMPLE_ROWS: u64 = 1 << 20;

/// Counts what is visible, retention aside; `rows` is how many rows there are in a direction.
pub(super) fn distinct(table: &TableView, last: Commit, rows: u64) -> Result<Distinct> {
    let all = Part::COUNT as u64;
    let parts = (SAMPLE_ROWS * all / rows.max(1)).clamp(1, all);
    let tasks: Vec<(Side, Part)> = Side::BOTH
        .into_iter()
        .flat_map(|side| Part::all().take(parts as usize).map(move |part| (side, part)))
        .collect();
    let sums = Mutex::new(Distinct::default());
    workers::for_each(workers::count(), &tasks, |(side, part)| {
        let (mut keys, mut values) = (0, 0);
        for_each_key(table, *side, *part, last, |_, mut merge| {
            let of_key = merge.count()?;
            keys += u64::from(of_key > 0);
            values += of_key;
            Ok(())
        })?;
        let mut sums = lock(&sums);
        match side {
            Side::Id => (sums.ids, sums.pairs) = (sums.ids + keys, sums.pairs + values),
            Side::PartnerId => sums.partner_ids += keys,
        }
        Ok(())
    })?;
    let sums = *lock(&sums);
    let of_all = |count: u64| count * all / parts;
    Ok(Distinct {
        ids: of_all(sums.ids),
        partner_ids: of_all(sums.partner_ids),
        pairs: of_all(sums.pairs),
        is_exact: parts == all,
    })
}
