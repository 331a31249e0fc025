//! The steps of a load, and what the second one writes.

use super::partition::{Sides, partition};
use super::spill::Spill;
use crate::cpu;
use crate::disk::{Disk, io_error};
use crate::erasures::Rules;
use crate::hash_partition::Part;
use crate::options::MemoryLimits;
use crate::segment::{SegmentInfo, sorted};
use crate::sync::Mutex;
use crate::versions::FileNames;
use idmatch_model::Side;
use idmatch_store::{BatchSource, Ingest, Result};
use std::path::Path;

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
    let sides = partition(&spill, place.limits.chunk_bytes, source, ingest)?;
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
    cpu::for_each(cpu::count(), &tasks, |(side, parts)| {
        let segments = write_segments(place, rules, *side, prefix_bits, parts, &sides)?;
        sides.release(*side, parts)?;
        written.lock().extend(segments);
        Ok(())
    })?;
    let mut written: Vec<SegmentInfo> = written.into_inner();
    written.sort_by(|a, b| a.file.cmp(&b.file));
    place.disk.sync_dir(place.segments).map_err(|e| io_error("sync", place.segments, e))?;
    Ok(written)
}

/// Writes the rows of neighbouring parts, which together have one prefix.
fn write_segments(
    place: &LoadPlace<'_>,
    rules: &Rules,
    side: Side,
    prefix_bits: u8,
    parts: &[Part],
    sides: &Sides<'_>,
) -> Result<Vec<SegmentInfo>> {
    let prefix = parts.first().map_or(0, |part| part.first_hash());
    let mut written = Vec::new();
    let mut rows = Vec::new();
    let total: usize = parts
        .iter()
        .filter_map(|part| sides.part(side, *part))
        .flat_map(|part| &part.chunks)
        .map(|chunk| chunk.len())
        .sum();
    rows.reserve_exact(total.min(place.limits.run_bytes));
    let mut write = |rows: &mut Vec<u8>| -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let path = place.segments.join(place.names.take());
        let segment = sorted(rows, rules, side, prefix_bits, prefix)?;
        written.extend(segment.finish(place.disk, &path)?);
        rows.clear();
        Ok(())
    };
    for part in parts {
        let Some(chunks) = sides.part(side, *part).map(|part| &part.chunks) else { continue };
        for chunk in chunks {
            if rows.len() + chunk.len() > place.limits.run_bytes {
                write(&mut rows)?;
            }
            sides.read(side, *part, chunk, &mut rows)?;
        }
    }
    write(&mut rows)?;
    Ok(written)
}
