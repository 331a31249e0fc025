//! Single rows, and the row count of a key.

use super::shard_merge::{HotKeyReader, RowSelection, shard_values};
use crate::context::{DirectionRow, TableContext};
use crate::schema::hot_keys::ROWS_PER_SHARD;
use crate::schema::metadata_cache::{Dates, TableMetadata};
use idmatch_model::{Keep, SeenAt, Side};
use idmatch_store::Result;
use scylla::value::CqlTimestamp;
use std::sync::Arc;

/// The date of a row; `None` if it does not exist. With keep="last" any date matches, with
/// keep="all" only the given one.
pub(crate) async fn row(
    context: &Arc<TableContext>,
    metadata: &TableMetadata,
    by: Side,
    (key, value, seen_at): DirectionRow<'_>,
) -> Result<Option<SeenAt>> {
    let keep = metadata.definition.keep;
    if metadata.hot.shards(by, key).is_some() {
        let which = RowSelection::Counting(Dates::of(seen_at));
        let mut rows = HotKeyReader::new(context, metadata, (by, key), Some(value), which).await?;
        let is_it =
            |row: &(String, SeenAt)| row.0 == value && (keep == Keep::Last || row.1 == seen_at);
        while let Some(some) = rows.next().await? {
            if let Some(row) = some.into_iter().find(is_it) {
                return Ok(Some(row.1));
            }
        }
        return Ok(None);
    }
    let select = &context.by(by).row;
    let (bucket, key, value) = (context.buckets.of(key), key.to_owned(), value.to_owned());
    let mut pages = match keep {
        Keep::Last => context.pages(select, (bucket, key, value)),
        Keep::All => {
            let seen_at = CqlTimestamp(seen_at.millis_i64());
            context.pages(select, (bucket, key, value, seen_at))
        }
    };
    let mut found = None;
    while let Some(page) = pages.next().await? {
        context.each_row(&page, |row| {
            found = Some(row.2);
            Ok(())
        })?;
    }
    Ok(found)
}

/// Counts the rows of a key, and stops soon after it is hot.
pub(crate) async fn count(context: &Arc<TableContext>, by: Side, key: &str) -> Result<u64> {
    let metadata = context.metadata_cache.current().await?;
    if let Some(shards) = metadata.hot.shards(by, key) {
        return count_shards(context, (by, key, shards)).await;
    }
    let pages = context.key_pages(&metadata, (by, key), Dates::ALL);
    pages.count(context.client.settings().hot_key_rows).await
}

/// Estimates the rows of a key from one shard, and stops soon after that shard is too large.
async fn count_shards(context: &TableContext, (by, key, shards): (Side, &str, i32)) -> Result<u64> {
    let statement = &context.hot().shard;
    let pages = context.pages(statement, shard_values(context, (by, key, shards, 0), Dates::ALL));
    Ok(pages.count(ROWS_PER_SHARD).await? * u64::from(shards.unsigned_abs()))
}
