//! Single rows, and how many a key has.

use super::hot_key::{HotRows, Which, part_values};
use crate::context::{Row, TableContext};
use crate::schema::bucket::bucket;
use crate::schema::hot_keys::ROWS_PER_PART;
use crate::schema::metadata_cache::{Dates, TableMetadata};
use idmatch_model::{Keep, SeenAt, Side};
use idmatch_store::Result;
use scylla::value::CqlTimestamp;
use std::sync::Arc;

/// The date of a row, if it is there: with keep="last" whatever that is, with keep="all" the one
/// that is asked for.
pub(crate) async fn row(
    context: &Arc<TableContext>,
    metadata: &TableMetadata,
    by: Side,
    (key, value, seen_at): Row<'_>,
) -> Result<Option<SeenAt>> {
    let keep = metadata.definition.keep;
    if metadata.hot.parts(by, key).is_some() {
        let which = Which::Counting(Dates::of(seen_at));
        let mut rows = HotRows::new(context, metadata, (by, key), Some(value), which).await?;
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
    let (bucket, key, value) =
        (bucket(key, metadata.definition.buckets), key.to_owned(), value.to_owned());
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

/// How many rows a key has at least: counting ends soon after they are very many.
pub(crate) async fn count(context: &Arc<TableContext>, by: Side, key: &str) -> Result<u64> {
    let metadata = context.metadata_cache.current().await?;
    if let Some(parts) = metadata.hot.parts(by, key) {
        return count_parts(context, (by, key, parts)).await;
    }
    let pages = context.key_pages(&metadata, (by, key), Dates::ALL);
    pages.count(context.client.settings().hot_key_rows).await
}

/// How many rows a key has, about: one part is looked at, and not much further than where it is too
/// large.
async fn count_parts(context: &TableContext, (by, key, parts): (Side, &str, i32)) -> Result<u64> {
    let statement = &context.hot().part;
    let pages = context.pages(statement, part_values(context, (by, key, parts, 0), Dates::ALL));
    Ok(pages.count(ROWS_PER_PART).await? * u64::from(parts.unsigned_abs()))
}
