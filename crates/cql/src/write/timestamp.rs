//! The timestamps and TTLs of rows: they decide which of two writes of a row is kept.
//!
//! Must not know how rows are sent.

use crate::schema::metadata_cache::TableMetadata;
use idmatch_model::SeenAt;
use idmatch_store::now;

/// Row timestamps are microseconds: a thousand for each millisecond of seen_at. The last one is for
/// erasures, which hide all rows of their millisecond; the others are for generations.
const STEPS: i64 = 1_000;
/// The last second at which rows may expire: 2038-01-18. Many servers take no later one, and no TTL
/// above 20 years. A row that lives longer gets no TTL; `compact` removes it.
const LAST_EXPIRY_SECONDS: i64 = i32::MAX as i64 - 86_400;
/// Time that rows live after their retention: calendar months differ, and the filter of reads is
/// exact.
const TTL_MARGIN_SECONDS: i64 = 4 * 86_400;
const MILLIS: i64 = 1_000;

/// The timestamp of a row: of two rows of one pair the newer has the greater timestamp.
pub(crate) fn written_at(metadata: &TableMetadata, seen_at: SeenAt) -> i64 {
    let generation = i64::from(metadata.definition.generation);
    seen_at.millis_i64() * STEPS + generation.clamp(0, STEPS - 2)
}

/// The timestamp that removes a row which no retention shows. A row that is written under a later retention
/// has a greater one, and stays.
pub(crate) fn purged_at(metadata: &TableMetadata, seen_at: SeenAt) -> i64 {
    written_at(metadata, seen_at)
}

/// The timestamp that removes all rows up to a date.
pub(crate) fn erased_at(at: SeenAt) -> i64 {
    at.millis_i64() * STEPS + STEPS - 1
}

/// The TTL of a row in seconds: 0 means no end, `None` that it has expired.
pub(crate) fn time_to_live(metadata: &TableMetadata, seen_at: SeenAt) -> Option<i32> {
    let now = now();
    let oldest = metadata.definition.kept_from(now);
    if oldest == SeenAt::EPOCH {
        // There is no retention, or it reaches back to 1970.
        return Some(0);
    }
    let left = seen_at.millis_i64() - oldest.millis_i64();
    if left < 0 {
        return None;
    }
    let seconds = left / MILLIS + TTL_MARGIN_SECONDS;
    let expires = now.millis_i64() / MILLIS + seconds;
    Some(if expires > LAST_EXPIRY_SECONDS { 0 } else { i32::try_from(seconds).unwrap_or(0) })
}
