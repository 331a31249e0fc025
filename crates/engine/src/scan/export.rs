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

/// Parts of a scan in each part of the hash space.
const IN_EACH: usize = PARTS / HashPartition::COUNT;

/// A version of a table, and the window that its retention leaves.
pub(crate) struct EngineScan {
    table: Arc<TableVersion>,
    last: Commit,
    shown: Window,
}

impl EngineScan {
    pub(crate) fn new(table: Arc<TableVersion>, last: Commit) -> EngineScan {
        let shown = table.visible_window(Window::ALL);
        EngineScan { table, last, shown }
    }

    fn read_part(
        &self,
        part: HashPartition,
        parts: &Parts,
        batch: &mut BatchBuilder<'_>,
    ) -> Result<()> {
        for_each_observation(&self.table, Side::Id, part, self.last, |key, value, seen_at| {
            match self.shown.contains(seen_at) && parts.contains(part_of(key.hash())) {
                true => batch.push(key, value, seen_at),
                false => Ok(()),
            }
        })
    }
}

fn part_of(hash: u64) -> usize {
    (hash >> (u64::BITS - PARTS.trailing_zeros())) as usize
}

impl Scan for EngineScan {
    fn part(&self, id: &str) -> usize {
        part_of(Packer::default().pack(id.as_bytes()).hash())
    }

    /// Cost: every segment of the direction by id is read once, where parts of it are wanted.
    fn read(&self, parts: &Parts, sink: &dyn MatchSink) -> Result<()> {
        let is_wanted = |part: &HashPartition| {
            let first = usize::from(part.0) * IN_EACH;
            (first..first + IN_EACH).any(|part| parts.contains(part))
        };
        let wanted: Vec<HashPartition> = HashPartition::all().filter(is_wanted).collect();
        cpu::for_each_with(
            cpu::count(),
            &wanted,
            || Ok(BatchBuilder::new(Side::Id, sink.lane()?)),
            |batch, part| self.read_part(*part, parts, batch),
            BatchBuilder::finish,
        )
    }
}
