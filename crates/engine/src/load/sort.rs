//! The second half of a load: the rows of some parts are sorted and written as segments.

use super::LoadPlace;
use super::partition::Sides;
use crate::erasures::Rules;
use crate::part::Part;
use crate::rows::sorted;
use crate::segment::SegmentInfo;
use idmatch_model::Side;
use idmatch_store::Result;

/// Writes the rows of neighbouring parts, which together have one prefix.
pub(crate) fn write_segments(
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
