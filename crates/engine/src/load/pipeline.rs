//! The second half of a load: rows in hash partitions become sorted segments.
//!
//! [`sort`] gives each thread the partitions of one range of hashes in one direction. Their rows are read into
//! memory, and `segment::sort` orders them and leaves out what `keep` and tombstones exclude. Commits of sessions
//! call it with the rows that they have staged. [`load`] partitions a source first: repairs use it.
//!
//! Must not know sessions, the manifest or the lock. Invariants: the segments are durable but not published, and
//! both directions have the same rows. Rows beyond the sort memory become further segments of the same range.

use super::partition::{Sides, partition_rows};
use super::spill::Spill;
use super::staging::StagingFiles;
use crate::cpu;
use crate::disk::{Disk, io_error};
use crate::hash_partition::HashPartition;
use crate::options::MemoryLimits;
use crate::segment::{SegmentInfo, sorted};
use crate::sync::Mutex;
use crate::tombstones::RowRules;
use idmatch_model::Side;
use idmatch_store::{Call, ObservationSource, Result, Unit};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The places from which a load reads and to which it writes.
pub(crate) struct LoadPlace<'a> {
    pub(crate) disk: &'a dyn Disk,
    /// The folder of the new segments.
    pub(crate) folder: &'a Path,
    /// Gives each new segment a path in that folder.
    pub(crate) new_path: &'a (dyn Fn() -> PathBuf + Sync),
    pub(crate) limits: MemoryLimits,
    pub(crate) call: &'a Call,
}

/// Writes the observations of a source as segments, durable but not published.
///
/// # Errors
/// The errors of the source and the disk. Files written so far are left for the caller to remove.
pub(crate) fn load(
    place: &LoadPlace<'_>,
    files: &StagingFiles,
    row_rules: &RowRules,
    source: &dyn ObservationSource,
) -> Result<Vec<SegmentInfo>> {
    let spill = Arc::new(Spill::new(files));
    let seed = row_rules.seed;
    let rows = partition_rows(&spill, place.limits.chunk_bytes, seed, source, place.call)?;
    sort(place, row_rules, &Sides { spill, rows })
}

/// Writes rows in partitions as segments, durable but not published. Spill files are removed as they are
/// read.
///
/// # Errors
/// The errors of the disk. Files written so far are left for the caller to remove.
pub(crate) fn sort(
    place: &LoadPlace<'_>,
    row_rules: &RowRules,
    sides: &Sides,
) -> Result<Vec<SegmentInfo>> {
    let rows = sides.rows.rows();
    if rows == 0 {
        return Ok(Vec::new());
    }
    let prefix_bits = HashPartition::prefix_bits(rows, place.limits.segment_rows);
    let tasks: Vec<(Side, Vec<HashPartition>)> = Side::BOTH
        .into_iter()
        .flat_map(|side| {
            HashPartition::groups(prefix_bits).map(move |partitions| (side, partitions))
        })
        .collect();
    let written = Mutex::new(Vec::new());
    cpu::for_each(cpu::count(), &tasks, |(side, partitions)| {
        let segments = write_segments(place, row_rules, *side, prefix_bits, partitions, sides)?;
        sides.release(*side, partitions)?;
        written.lock().extend(segments);
        Ok(())
    })?;
    let mut written: Vec<SegmentInfo> = written.into_inner();
    written.sort_by(|a, b| a.file.cmp(&b.file));
    place.disk.sync_dir(place.folder).map_err(|e| io_error("sync", place.folder, e))?;
    // The caller may have given up while the last segment was written.
    place.call.check()?;
    Ok(written)
}

/// Writes the rows of neighbouring partitions that share one prefix.
fn write_segments(
    place: &LoadPlace<'_>,
    row_rules: &RowRules,
    side: Side,
    prefix_bits: u8,
    partitions: &[HashPartition],
    sides: &Sides,
) -> Result<Vec<SegmentInfo>> {
    let prefix = partitions.first().map_or(0, |partition| partition.first_hash());
    let mut written = Vec::new();
    let mut rows = Vec::new();
    let total: usize = partitions
        .iter()
        .filter_map(|partition| sides.partition(side, *partition))
        .flat_map(|partition| &partition.chunks)
        .map(|chunk| chunk.len())
        .sum();
    rows.reserve_exact(total.min(place.limits.run_bytes));
    let mut write = |rows: &mut Vec<u8>| -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let path = (place.new_path)();
        let segment = sorted(rows, row_rules, side, (prefix_bits, prefix), place.call)?;
        written.extend(segment.finish(place.disk, &path, row_rules.table)?);
        rows.clear();
        Ok(())
    };
    for partition in partitions {
        let Some(chunks) = sides.partition(side, *partition).map(|partition| &partition.chunks)
        else {
            continue;
        };
        for chunk in chunks {
            place.call.report("sort", chunk.len() as u64, Unit::Bytes)?;
            if rows.len() + chunk.len() > place.limits.run_bytes {
                write(&mut rows)?;
            }
            sides.read(side, *partition, chunk, &mut rows)?;
        }
    }
    write(&mut rows)?;
    Ok(written)
}
