//! Writes rows to both directions: batches of one partition each, within the concurrency limit of
//! `client::limiter`. Leaves out rows that are erased or expired. Rows of a hot key go to its
//! shards. Samples keys to detect hot ones.
//!
//! Invariant: a row counts as written when both directions have acknowledged it.

use super::hot_keys::{count_sample, hot_candidates as hot_among, try_publish_hot_keys};
use super::timestamp::{time_to_live, written_at};
use crate::client::{Prepared, WritePermit};
use crate::context::TableContext;
use crate::row_buffer::RowBuffer;
use crate::schema::metadata_cache::TableMetadata;
use idmatch_model::Side;
use idmatch_store::{Error, ErrorKind, Result};
use scylla::serialize::row::SerializeRow;
use scylla::value::CqlTimestamp;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// The largest request: below the limits at which servers warn of large batches (ScyllaDB: 128 KiB;
/// Cassandra has none for a single partition).
const MOST_ROWS: usize = 400;
const MOST_BYTES: usize = 48 << 10;

/// Writes rows; returns when all are durable. Rows that are erased or too old to be visible count
/// as written. Cost: two requests for each bucket of the rows.
///
/// # Errors
/// Says how many rows were not acknowledged by both directions. `UnknownOutcome` where a direction may have
/// any of the rows.
pub(crate) async fn write(context: &Arc<TableContext>, rows: RowBuffer) -> Result<()> {
    let metadata = context.metadata_cache.current().await?;
    let rows = match metadata.erasures.len() {
        0 => rows,
        _ => rows.filtered(|id, partner_id, seen_at| {
            !metadata.erasures.hides(Side::Id, id, partner_id, seen_at)
        }),
    };
    let rows = Arc::new(rows);
    // No row is sent yet: an error here means that nothing began.
    publish_hot_candidates(context, &rows).await;
    let metadata = context.metadata_cache.current().await?;
    let (mut tasks, mut acks) = (JoinSet::new(), AckTracker::about(rows.len()));
    for by in Side::BOTH {
        let groups = groups(context, &metadata, &rows, by);
        for (_, newest) in newest_of_hot_keys(&groups, &rows) {
            let (context, rows) = (Arc::clone(context), Arc::clone(&rows));
            tasks.spawn(async move { note_hot_key(&context, &rows, by, newest).await });
        }
        for group in groups {
            while tasks.len() >= context.client.settings().in_flight
                && let Some(done) = tasks.join_next().await
            {
                acks.record(done);
            }
            if acks.error.is_some() {
                // Sends no more: the caller repeats the whole write.
                break;
            }
            let (context, rows) = (Arc::clone(context), Arc::clone(&rows));
            tasks.spawn(async move {
                let written = write_group(&context, &rows, by, &group).await;
                written.map(|()| group.rows)
            });
        }
    }
    while let Some(done) = tasks.join_next().await {
        acks.record(done);
    }
    acks.into_result(context)
}

/// Rows for one partition.
struct Group {
    partition: RowPartition,
    rows: Vec<usize>,
}

/// The partition that a row is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RowPartition {
    Bucket(i32),
    /// A shard of a hot key: the number of shards, the shard, and a row with the key.
    Shard {
        key: usize,
        shards: i32,
        shard: i32,
    },
}

/// Publishes the keys that these rows make hot. If that fails, their rows go to their bucket.
async fn publish_hot_candidates(context: &Arc<TableContext>, rows: &RowBuffer) {
    let hot_rows = context.client.settings().hot_key_rows;
    if rows.len() as u64 <= hot_rows {
        return;
    }
    for by in Side::BOTH {
        let hot_candidates = hot_candidates(context, rows, by, hot_rows);
        if !hot_candidates.is_empty() {
            try_publish_hot_keys(context, by, hot_candidates).await;
        }
    }
}

/// The partition of each row of one direction.
fn groups(
    context: &TableContext,
    metadata: &TableMetadata,
    rows: &RowBuffer,
    by: Side,
) -> Vec<Group> {
    let (buckets, metadata_ttl) = (context.buckets, context.metadata_cache.ttl());
    let mut keys: HashMap<&str, usize> = HashMap::new();
    let partition = |row: usize| {
        let (key, value) = rows.pair(row, by);
        match metadata.hot.shards_to_write(by, key, metadata_ttl) {
            None => RowPartition::Bucket(buckets.of(key)),
            Some(shards) => {
                let shard = buckets.shard(value, shards);
                RowPartition::Shard { key: *keys.entry(key).or_insert(row), shards, shard }
            }
        }
    };
    let groups = rows.grouped(partition, (MOST_ROWS, MOST_BYTES));
    groups.into_iter().map(|(partition, rows)| Group { partition, rows }).collect()
}

/// The newest row of each hot key.
fn newest_of_hot_keys(groups: &[Group], rows: &RowBuffer) -> HashMap<usize, usize> {
    let mut newest = HashMap::new();
    for group in groups {
        let RowPartition::Shard { key, .. } = group.partition else { continue };
        for row in &group.rows {
            let found = newest.entry(key).or_insert(*row);
            if rows.seen_at(*row) > rows.seen_at(*found) {
                *found = *row;
            }
        }
    }
    newest
}

/// Notes the key of a row that goes to a shard, so that a scan finds it. The note has the timestamp and the
/// time to live of the row: an erasure that removes all rows of the key removes it too.
async fn note_hot_key(
    context: &TableContext,
    rows: &RowBuffer,
    by: Side,
    row: usize,
) -> Result<Vec<usize>> {
    let permit = context.client.permit().await;
    let metadata = context.metadata_cache.current().await?;
    let seen_at = rows.seen_at(row);
    if let Some(ttl) = time_to_live(&metadata, seen_at) {
        let (id, key, at) = (context.uuid(), rows.pair(row, by).0, written_at(&metadata, seen_at));
        let values = (id, by.column(), key, at, ttl);
        permit.write(&context.what(), &context.hot().insert_key, values).await?;
    }
    Ok(Vec::new())
}

/// The keys that these rows make hot. Only a bucket with many of the rows can have such a key.
fn hot_candidates(
    context: &TableContext,
    rows: &RowBuffer,
    by: Side,
    hot_rows: u64,
) -> HashMap<String, u64> {
    let buckets = context.buckets;
    let keys = || (0..rows.len()).map(|row| rows.pair(row, by).0);
    let mut in_bucket: HashMap<i32, u64> = HashMap::new();
    keys().for_each(|key| *in_bucket.entry(buckets.of(key)).or_default() += 1);
    in_bucket.retain(|_, rows| *rows > hot_rows);
    if in_bucket.is_empty() {
        return HashMap::new();
    }
    hot_among(keys().filter(|key| in_bucket.contains_key(&buckets.of(key))), hot_rows)
}

async fn write_group(
    context: &Arc<TableContext>,
    rows: &RowBuffer,
    by: Side,
    group: &Group,
) -> Result<()> {
    let insert = match group.partition {
        RowPartition::Bucket(_) => &context.by(by).insert,
        RowPartition::Shard { .. } => &context.hot().insert,
    };
    let permit = context.client.permit().await;
    // The retention may have changed since the first rows of this write were sent.
    let metadata = context.metadata_cache.current().await?;
    let replica_status = group.rows.iter().filter_map(|row| {
        let seen_at = rows.seen_at(*row);
        let ttl = time_to_live(&metadata, seen_at)?;
        let date = CqlTimestamp(seen_at.millis_i64());
        Some((rows.pair(*row, by), date, written_at(&metadata, seen_at), ttl))
    });
    let (what, id, side) = (context.what(), context.uuid(), by.column());
    match group.partition {
        RowPartition::Bucket(bucket) => {
            let row = |((key, value), date, at, ttl)| (bucket, key, value, date, at, ttl);
            write_rows(permit, &what, insert, &replica_status.map(row).collect::<Vec<_>>()).await?;
        }
        RowPartition::Shard { shards, shard, .. } => {
            let row = |((key, value), date, at, ttl)| {
                (id, side, key, shards, shard, value, date, at, ttl)
            };
            write_rows(permit, &what, insert, &replica_status.map(row).collect::<Vec<_>>()).await?;
        }
    }
    count_sample(context, &metadata, by, group.rows.iter().map(|row| rows.pair(*row, by).0));
    Ok(())
}

async fn write_rows<V: SerializeRow>(
    permit: WritePermit<'_>,
    what: &str,
    insert: &Prepared,
    values: &[V],
) -> Result<()> {
    match values {
        [] => Ok(()),
        [one] => permit.write(what, insert, one).await,
        some => permit.write_batch(what, insert, some).await,
    }
}

/// The rows of an acknowledged request, or its error.
type Done = std::result::Result<Result<Vec<usize>>, tokio::task::JoinError>;

/// The answers of the servers about some rows.
struct AckTracker {
    /// The number of directions that have acknowledged each row.
    directions: Vec<u8>,
    error: Option<Error>,
}

impl AckTracker {
    fn about(rows: usize) -> AckTracker {
        AckTracker { directions: vec![0; rows], error: None }
    }

    fn record(&mut self, done: Done) {
        let ended_early =
            |e| Error::with_source(ErrorKind::UnknownOutcome, "a write ended early", e);
        let error = match done.unwrap_or_else(|e| Err(ended_early(e))) {
            Ok(rows) => {
                for row in rows {
                    if let Some(directions) = self.directions.get_mut(row) {
                        *directions += 1;
                    }
                }
                return;
            }
            Err(error) => error,
        };
        // An unknown outcome is worse than a refusal.
        let is_worse = |first: &Error| {
            first.kind() != ErrorKind::UnknownOutcome && error.kind() == ErrorKind::UnknownOutcome
        };
        if self.error.as_ref().is_none_or(is_worse) {
            self.error = Some(error);
        }
    }

    fn into_result(self, context: &TableContext) -> Result<()> {
        let Some(error) = self.error else { return Ok(()) };
        // A refused write is half done where the other direction, or another row, was written.
        let is_begun = self.directions.iter().any(|directions| *directions > 0);
        let kind = if is_begun { ErrorKind::UnknownOutcome } else { error.kind() };
        let both = Side::BOTH.len();
        let missing = self.directions.iter().filter(|n| usize::from(**n) < both).count();
        let text = format!(
            "{missing} of {} rows for table {} were not acknowledged by both directions; \
             write all again, which is always safe",
            self.directions.len(),
            context.name(),
        );
        Err(Error::with_source(kind, text, error))
    }
}
