//! All observations of a table at one point, for copies and comparisons.
//!
//! Segments are ordered by the hash of the packed key, whose highest bits name the scan range of an id. So a
//! scan meets the ranges in their order. Must not know what is done with the rows.

use super::for_each_observation;
use crate::cpu;
use crate::encoding::Packer;
use crate::hash_partition::HashPartition;
use crate::matching::BatchBuilder;
use crate::memtable::Commit;
use crate::versions::TableVersion;
use idmatch_model::{Side, Window};
use idmatch_store::{MatchSink, PARTS, Parts, Result, Scan};
use std::sync::Arc;

/// Scan ranges in each hash partition.
const RANGES_PER_PARTITION: usize = PARTS / HashPartition::COUNT;

/// A version of a table, and the window that its retention leaves.
pub(crate) struct EngineScan {
    table: Arc<TableVersion>,
    last_commit: Commit,
    visible: Window,
}

impl EngineScan {
    pub(crate) fn new(table: Arc<TableVersion>, last_commit: Commit) -> EngineScan {
        let visible = table.visible_window(Window::ALL);
        EngineScan { table, last_commit, visible }
    }

    fn read_partition(
        &self,
        partition: HashPartition,
        ranges: &Parts,
        batch: &mut BatchBuilder<'_>,
    ) -> Result<()> {
        let seed = self.table.row_rules.seed;
        for_each_observation(
            &self.table,
            Side::Id,
            partition,
            self.last_commit,
            |key, value, seen_at| match self.visible.contains(seen_at)
                && ranges.contains(range_of(key.hash(seed)))
            {
                true => batch.push(key, value, seen_at),
                false => Ok(()),
            },
        )
    }
}

fn range_of(hash: u64) -> usize {
    (hash >> (u64::BITS - PARTS.trailing_zeros())) as usize
}

impl Scan for EngineScan {
    fn part(&self, id: &str) -> usize {
        range_of(Packer::default().pack(id.as_bytes()).hash(self.table.row_rules.seed))
    }

    /// Cost: every segment of the direction by id is read once, if any range is wanted.
    fn read(&self, ranges: &Parts, sink: &dyn MatchSink) -> Result<()> {
        let is_wanted = |partition: &HashPartition| {
            let first = usize::from(partition.0) * RANGES_PER_PARTITION;
            (first..first + RANGES_PER_PARTITION).any(|range| ranges.contains(range))
        };
        let wanted: Vec<HashPartition> = HashPartition::all().filter(is_wanted).collect();
        cpu::for_each_with(
            cpu::count(),
            &wanted,
            || Ok(BatchBuilder::new(Side::Id, sink.lane()?)),
            |batch, partition| self.read_partition(*partition, ranges, batch),
            BatchBuilder::finish,
        )
    }
}
