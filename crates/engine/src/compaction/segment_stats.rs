//! The statistics of segments, by which compactions are chosen.

use super::strategy::{CompactionMode, SegmentStats, next_compaction};
use crate::options::MemoryLimits;
use crate::segment::Segment;
use crate::versions::{Clock, TableVersion};
use idmatch_model::{SeenAt, Side};
use idmatch_store::now;
use std::sync::Arc;

/// A segment with this share of the memory that sorts one is full.
const FULL_SHARE: u64 = 4;

/// The share of the retention in [`segment_stats`]: one part of this many.
const OLD_SHARE: u64 = 8;

/// Bytes of the segments that compactions in the background will rewrite.
pub(crate) fn pending_bytes(table: &TableVersion, clock: &Clock, limits: MemoryLimits) -> u64 {
    let oldest = oldest_kept(table, clock, now());
    let mut bytes = 0;
    for side in Side::BOTH {
        let mut left: Vec<&Arc<Segment>> = table.segments(side).iter().collect();
        let stats = |left: &[&Arc<Segment>]| -> Vec<SegmentStats> {
            left.iter()
                .map(|segment| segment_stats(segment, oldest, CompactionMode::Idle, limits))
                .collect()
        };
        while let Some(choice) =
            next_compaction(&stats(&left), CompactionMode::Idle, limits.segment_rows)
        {
            let mut number = 0;
            left.retain(|segment| {
                let stays = !choice.inputs.contains(&number);
                number += 1;
                bytes += if stays { 0 } else { segment.header.file_len() };
                stays
            });
        }
    }
    bytes
}

/// The oldest date that compactions of a table keep; all are kept while the system's clock is not believed.
pub(crate) fn oldest_kept(table: &TableVersion, clock: &Clock, now: SeenAt) -> SeenAt {
    match clock.may_expire(now.millis()) {
        true => table.entry().oldest_kept(now),
        false => SeenAt::EPOCH,
    }
}

/// The statistics of a segment of a table that keeps rows from `oldest` on. Rows that are too old or erased
/// are hidden by readers. A full compaction rewrites a segment because of them. In the background only rows
/// that are older by a share of the retention count, so that a segment is rewritten a few times in all.
pub(crate) fn segment_stats(
    segment: &Segment,
    oldest: SeenAt,
    mode: CompactionMode,
    limits: MemoryLimits,
) -> SegmentStats {
    let header = &segment.header;
    let needs_rewrite = match mode {
        CompactionMode::Full => header.oldest < oldest || segment.has_hidden(),
        CompactionMode::Background | CompactionMode::Idle => {
            let share = now().millis().saturating_sub(oldest.millis()) / OLD_SHARE;
            header.oldest.millis() < oldest.millis().saturating_sub(share)
        }
    };
    SegmentStats {
        prefix_bits: header.prefix_bits,
        prefix: header.prefix,
        rows: header.rows,
        is_full: header.file_len() >= limits.run_bytes as u64 / FULL_SHARE,
        needs_rewrite,
    }
}
