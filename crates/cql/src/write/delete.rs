//! Deletes rows and keys in one direction, in their bucket and in the parts of a hot key.

use super::timestamp::erased_at;
use crate::context::{Row, TableContext};
use crate::schema::bucket::bucket;
use crate::schema::hot_keys::{part, steps};
use crate::schema::metadata_cache::TableMetadata;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{Keep, SeenAt, Side};
use idmatch_store::Result;
use scylla::value::CqlTimestamp;

/// Concurrent deletes of the parts of one key.
const CONCURRENT_PART_DELETES: usize = 64;

/// Removes a row that was seen by then, in one direction. What was seen later stays.
pub(crate) async fn delete_row(
    context: &TableContext,
    metadata: &TableMetadata,
    by: Side,
    (key, value, seen_at): Row<'_>,
    at: SeenAt,
) -> Result<()> {
    if let Some(parts) = metadata.hot.parts(by, key) {
        delete_hot_row(context, (by, key, parts), (value, seen_at), at).await?;
    }
    let delete = &context.by(by).delete_row;
    let bucket = bucket(key, metadata.definition.buckets);
    let (at, what) = (erased_at(at), context.what());
    match metadata.definition.keep {
        Keep::Last => context.client.write(&what, delete, (at, bucket, key, value)).await,
        Keep::All => {
            let seen_at = CqlTimestamp(seen_at.millis_i64());
            context.client.write(&what, delete, (at, bucket, key, value, seen_at)).await
        }
    }
    .map(drop)
}

/// Removes what a key has that was seen by then, in one direction.
pub(crate) async fn delete_key(
    context: &TableContext,
    metadata: &TableMetadata,
    by: Side,
    key: &str,
    at: SeenAt,
) -> Result<()> {
    if let Some(parts) = metadata.hot.parts(by, key) {
        delete_hot_key(context, (by, key, parts), at).await?;
    }
    let delete = &context.by(by).delete_key;
    let values = (erased_at(at), bucket(key, metadata.definition.buckets), key);
    context.client.write(&context.what(), delete, values).await.map(drop)
}

/// Removes what a key has in its parts that was seen by then.
async fn delete_hot_key(
    context: &TableContext,
    (by, key, parts): (Side, &str, i32),
    at: SeenAt,
) -> Result<()> {
    let delete = &context.hot().delete_part;
    let what = context.what();
    let all = steps(parts).flat_map(|parts| (0..parts).map(move |part| (parts, part)));
    stream::iter(all)
        .map(|(parts, part)| {
            let (name, side) = (context.name().as_str(), by.column());
            let values = (erased_at(at), name, side, key, parts, part);
            context.client.write(&what, delete, values)
        })
        .buffer_unordered(CONCURRENT_PART_DELETES)
        .try_for_each(async |_| Ok(()))
        .await
}

/// Removes one row of a key from its parts, if that was seen by then.
async fn delete_hot_row(
    context: &TableContext,
    (by, key, parts): (Side, &str, i32),
    (value, seen_at): (&str, SeenAt),
    at: SeenAt,
) -> Result<()> {
    for parts in steps(parts) {
        delete_part_row(context, (by, key, parts), (value, seen_at), at).await?;
    }
    Ok(())
}

/// Removes one row of a key from this number of parts, if that was seen by then.
pub(crate) async fn delete_part_row(
    context: &TableContext,
    (by, key, parts): (Side, &str, i32),
    (value, seen_at): (&str, SeenAt),
    at: SeenAt,
) -> Result<()> {
    let delete = &context.hot().delete_row;
    let (name, side, part) = (context.name().as_str(), by.column(), part(value, parts));
    let date = CqlTimestamp(seen_at.millis_i64());
    let values = (erased_at(at), name, side, key, parts, part, value, date);
    context.client.write(&context.what(), delete, values).await.map(drop)
}
