//! Runs a compaction: writes the rows of some segments into new ones.

use crate::disk::Disk;
use crate::encoding::rows;
use crate::hash_partition::HashPartition;
use crate::lookup::RowCursor;
use crate::segment::{Segment, SegmentInfo, sorted};
use crate::sync::AtomicBool;
use crate::sync::Ordering::Relaxed;
use crate::tombstones::RowRules;
use crate::versions::FileNames;
use idmatch_model::{SeenAt, Side};
use idmatch_store::{Call, Error, ErrorKind, Result, Unit};
use std::path::Path;
use std::sync::Arc;

/// The parameters of a compaction.
pub(crate) struct CompactionJob<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) folder: &'a Path,
    pub(crate) names: &'a FileNames<'a>,
    /// More rows of one range become several segments.
    pub(crate) run_bytes: usize,
    pub(crate) row_rules: &'a RowRules,
    /// Older rows are dropped.
    pub(crate) oldest: SeenAt,
    /// The compaction ends with an error soon after this is set.
    pub(crate) stop: &'a AtomicBool,
    /// The call of its caller, if it has one. The compaction ends soon after the call does.
    pub(crate) call: &'a Call,
}

/// Compacts segments of one range and direction into segments that share this many prefix bits. They are
/// durable when this returns, but not published. Cost: one pass over the inputs, every page verified.
pub(crate) fn run(
    job: &CompactionJob<'_>,
    side: Side,
    inputs: &[Arc<Segment>],
    prefix_bits: u8,
) -> Result<Vec<SegmentInfo>> {
    let mut written = Vec::new();
    for partitions in HashPartition::groups(prefix_bits) {
        let prefix = partitions.first().map_or(0, |partition| partition.first_hash());
        let mut found = Vec::new();
        let mut write = |found: &mut Vec<u8>| -> Result<()> {
            if found.is_empty() {
                return Ok(());
            }
            let segment = sorted(found, job.row_rules, side, (prefix_bits, prefix), job.call)?;
            let path = job.folder.join(job.names.take());
            written.extend(segment.finish(job.disk, &path, job.row_rules.table)?);
            found.clear();
            Ok(())
        };
        for partition in &partitions {
            for input in inputs.iter().filter(|input| input.header.overlaps(*partition)) {
                job.copy_partition(input, *partition, &mut found)?;
                if found.len() > job.run_bytes {
                    write(&mut found)?;
                }
            }
        }
        write(&mut found)?;
    }
    Ok(written)
}

impl CompactionJob<'_> {
    /// Appends the rows of a partition.
    fn copy_partition(
        &self,
        segment: &Segment,
        partition: HashPartition,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let header = &segment.header;
        let last_hash = partition.first_hash() | (u64::MAX >> HashPartition::BITS);
        for number in header.block_of(partition.first_hash())..=header.block_of(last_hash) {
            if self.stop.load(Relaxed) {
                return Err(Error::new(ErrorKind::Io, "the store is being closed"));
            }
            self.call.check()?;
            let Some(block) = segment.block(number)? else { continue };
            // Other reads prove a key by its hash; here only the checksum of its page does.
            segment.check_keys(&block)?;
            // One cursor for the block: its pages are verified once, not for every key.
            let mut rows = RowCursor::new(segment, block, 0..0);
            let mut read = 0;
            for at in 0..block.keys {
                let key = segment.key(&block, at)?;
                // A block of a small segment spans several partitions.
                if HashPartition::of(key.hash(segment.seed())) != partition {
                    continue;
                }
                rows = rows.moved_to(block.rows_of(at));
                read += block.rows_of(at).len();
                while let Some(seen_at) = rows.date()? {
                    if seen_at < self.oldest || segment.is_below_watermark(seen_at) {
                        break;
                    }
                    rows::push(out, seen_at, key, rows.value()?);
                    rows.advance();
                }
            }
            self.call.report("compact", read as u64, Unit::Rows)?;
        }
        Ok(())
    }
}
