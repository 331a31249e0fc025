//! Deletes rows and keys in one direction, in their bucket and in the shards of a hot key.

use crate::context::{DirectionRow, TableContext};
use crate::schema::hot_keys::steps;
use crate::schema::metadata_cache::TableMetadata;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{Keep, SeenAt, Side};
use idmatch_store::Result;
use scylla::value::CqlTimestamp;

/// Concurrent deletes of the shards of one key.
const CONCURRENT_PART_DELETES: usize = 64;

/// Removes a row that was written up to a timestamp, in one direction.
pub(crate) async fn delete_row(
    context: &TableContext,
    metadata: &TableMetadata,
    by: Side,
    (key, value, seen_at): DirectionRow<'_>,
    at: i64,
) -> Result<()> {
    if let Some(shards) = metadata.hot.shards(by, key) {
        delete_hot_row(context, (by, key, shards), (value, seen_at), at).await?;
    }
    let delete = &context.by(by).delete_row;
    let (bucket, what) = (context.buckets.of(key), context.what());
    match metadata.definition.keep {
        Keep::Last => context.client.write(&what, delete, (at, bucket, key, value)).await,
        Keep::All => {
            let seen_at = CqlTimestamp(seen_at.millis_i64());
            context.client.write(&what, delete, (at, bucket, key, value, seen_at)).await
        }
    }
    .map(drop)
}

/// Removes the rows of a key that were written up to a timestamp, in one direction.
pub(crate) async fn delete_key(
    context: &TableContext,
    metadata: &TableMetadata,
    by: Side,
    key: &str,
    at: i64,
) -> Result<()> {
    if let Some(shards) = metadata.hot.shards(by, key) {
        delete_hot_key(context, (by, key, shards), at).await?;
    }
    let delete = &context.by(by).delete_key;
    let values = (at, context.buckets.of(key), key);
    context.client.write(&context.what(), delete, values).await.map(drop)
}

/// Removes the rows of a key that were written up to a timestamp, in its shards.
async fn delete_hot_key(
    context: &TableContext,
    (by, key, shards): (Side, &str, i32),
    at: i64,
) -> Result<()> {
    let delete = &context.hot().delete_shard;
    let what = context.what();
    let all = steps(shards).flat_map(|shards| (0..shards).map(move |shard| (shards, shard)));
    stream::iter(all)
        .map(|(shards, shard)| {
            let values = (at, context.uuid(), by.column(), key, shards, shard);
            context.client.write(&what, delete, values)
        })
        .buffer_unordered(CONCURRENT_PART_DELETES)
        .try_for_each(async |_| Ok(()))
        .await?;
    // The note of the key has the timestamp of its newest row, so it stays where a newer row stays.
    let values = (at, context.uuid(), by.column(), key);
    context.client.write(&what, &context.hot().delete_key, values).await.map(drop)
}

/// Removes one row of a key from its shards, if it was written up to a timestamp.
async fn delete_hot_row(
    context: &TableContext,
    (by, key, shards): (Side, &str, i32),
    (value, seen_at): (&str, SeenAt),
    at: i64,
) -> Result<()> {
    for shards in steps(shards) {
        delete_shard_row(context, (by, key, shards), (value, seen_at), at).await?;
    }
    Ok(())
}

/// Removes one row of a key from this number of shards, if it was written up to a timestamp.
pub(crate) async fn delete_shard_row(
    context: &TableContext,
    (by, key, shards): (Side, &str, i32),
    (value, seen_at): (&str, SeenAt),
    at: i64,
) -> Result<()> {
    let delete = &context.hot().delete_row;
    let (id, side, shard) = (context.uuid(), by.column(), context.buckets.shard(value, shards));
    let date = CqlTimestamp(seen_at.millis_i64());
    let values = (at, id, side, key, shards, shard, value, date);
    context.client.write(&context.what(), delete, values).await.map(drop)
}
