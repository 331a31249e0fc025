//! The timestamps and times to live of rows: they decide which of two writes of a row is kept.
//!
//! Must not know how rows are sent.

use crate::schema::metadata_cache::TableMetadata;
use idmatch_model::SeenAt;
use idmatch_store::now;

/// The timestamps of rows are microseconds: a thousand in each millisecond of seen_at. The last is
/// for erasures, which hide all rows of their millisecond; the others for generations.
const STEPS: i64 = 1_000;
/// The last second at which rows may expire: 2038-01-18. Many servers take no later one, nor a time to
/// live of more than 20 years. A row that would live longer gets none, and `compact` removes it.
const LAST_EXPIRY_SECONDS: i64 = i32::MAX as i64 - 86_400;
/// Rows live on for so long after their retention has ended: calendar months differ, and it is the
/// filter of reads that is exact.
const TTL_MARGIN_SECONDS: i64 = 4 * 86_400;
const MILLIS: i64 = 1_000;

/// The timestamp of a row: of two with one pair the newer has the greater one.
pub(crate) fn written_at(metadata: &TableMetadata, seen_at: SeenAt) -> i64 {
    let generation = i64::from(metadata.definition.generation);
    seen_at.millis_i64() * STEPS + generation.clamp(0, STEPS - 2)
}

/// The timestamp that removes all rows up to a date.
pub(crate) fn erased_at(at: SeenAt) -> i64 {
    at.millis_i64() * STEPS + STEPS - 1
}

/// How long a row is to live, in seconds: 0 is for ever, `None` is that its time is over.
pub(crate) fn time_to_live(metadata: &TableMetadata, seen_at: SeenAt) -> Option<i32> {
    let Some(retention) = &metadata.definition.retention else { return Some(0) };
    let now = now();
    let oldest = retention.before(now);
    if oldest == SeenAt::EPOCH {
        // A retention longer than time.
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
