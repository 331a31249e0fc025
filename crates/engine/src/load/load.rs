//! Bulk load: from batches to published segments, without the journal.
//!
//! 1. [`partition`]: threads pull batches, judge and pack the rows, and put every row into
//!    the buffers of two parts of the hash space: its id's and its partner_id's.
//! 2. [`spill`]: buffers that fill up go to temporary files, one for 16 parts.
//! 3. [`run`]: threads take parts, sort their rows in memory and write segments.
//!
//! Nothing is visible before the caller publishes the segments in the manifest. Memory is
//! bounded by [`MemoryLimits`]; where a part is larger than what is sorted at once (one key with
//! a hundred million rows, say) it becomes several segments of the same hashes, which readers
//! merge.

mod partition;
mod run;
mod spill;

use crate::disk::Disk;
use crate::erasures::Rules;
use crate::errors::io_error;
use crate::limits::MemoryLimits;
use crate::names::FileNames;
use crate::part::Part;
use crate::segment::SegmentInfo;
use crate::workers::{self, lock};
use idmatch_model::Side;
use idmatch_store::{BatchSource, Ingest, Result};
use spill::Spill;
use std::path::Path;
use std::sync::Mutex;

/// What a load needs of its surroundings.
pub(crate) struct LoadPlace<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) segments: &'a Path,
    pub(crate) scratch: &'a Path,
    pub(crate) names: &'a FileNames<'a>,
    pub(crate) limits: MemoryLimits,
}

/// Writes the observations of a source as segments, durable but not published.
///
/// # Errors
/// Whatever the source, the ingest or the disk report. Files written so far are left for
/// the caller to remove.
pub(crate) fn load(
    place: &LoadPlace<'_>,
    rules: &Rules,
    source: &mut dyn BatchSource,
    ingest: &Ingest<'_>,
) -> Result<Vec<SegmentInfo>> {
    let spill = Spill::new(place.disk, place.scratch);
    let sides = partition::partition(&spill, place.limits.chunk_bytes, source, ingest)?;
    let rows = sides.rows();
    if rows == 0 {
        return Ok(Vec::new());
    }
    let prefix_bits = Part::prefix_bits(rows, place.limits.segment_rows);
    let tasks: Vec<(Side, Vec<Part>)> = Side::BOTH
        .into_iter()
        .flat_map(|side| Part::groups(prefix_bits).map(move |parts| (side, parts)))
        .collect();
    let written = Mutex::new(Vec::new());
    workers::for_each(workers::count(), &tasks, |(side, parts)| {
        let segments = run::write_segments(place, rules, *side, prefix_bits, parts, &sides)?;
        sides.release(*side, parts)?;
        lock(&written).extend(segments);
        Ok(())
    })?;
    let mut written: Vec<SegmentInfo> = std::mem::take(&mut *lock(&written));
    written.sort_by(|a, b| a.file.cmp(&b.file));
    place.disk.sync_dir(place.segments).map_err(|e| io_error("sync", place.segments, e))?;
    Ok(written)
}
