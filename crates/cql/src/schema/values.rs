//! Converts values to and from their form on the servers: the id of a table is a UUID there, and the time of
//! a write is in microseconds of the servers' clocks. Must not know tables or statements.

use idmatch_model::TableId;
use idmatch_store::now;
use std::time::Duration;
use uuid::Uuid;

/// The UUID of a table's id.
pub(crate) fn uuid(id: TableId) -> Uuid {
    Uuid::from_u128(id.0)
}

/// The id of the table that has this UUID.
pub(crate) fn table_id(uuid: Uuid) -> TableId {
    TableId(uuid.as_u128())
}

/// The time since a write, by the servers' clocks.
pub(super) fn age(written_micros: Option<i64>) -> Duration {
    let written = Duration::from_micros(written_micros.unwrap_or(i64::MAX).cast_unsigned());
    Duration::from_millis(now().millis()).saturating_sub(written)
}
