//! Looks up the rows of keys.
//!
//! With keep="all", and for a hot key, rows come newest first, page by page. With keep="last" the
//! servers order the other rows by value, so a lookup reads all rows of the key and sorts them.

use super::row::row;
use super::shard_merge::{HotKeyReader, RowSelection};
use crate::client::paging::Pages;
use crate::context::TableContext;
use crate::schema::metadata_cache::{TableMetadata, VisibleRange};
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{Keep, SeenAt, Side, Window, newest_first};
use idmatch_store::{Answers, Lookup, Result};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Keys of a lookup that are read concurrently.
const CONCURRENT_KEYS: usize = 64;
/// Hot keys of a lookup that are read concurrently: each takes memory.
const CONCURRENT_HOT_KEYS: usize = 2;

/// The answers of one key.
pub(crate) struct KeyRows {
    context: Arc<TableContext>,
    metadata: Arc<TableMetadata>,
    visible: VisibleRange,
    by: Side,
    key: String,
    source: Source,
    read: u64,
    /// With keep="all", hashes of the returned values: later rows of the same value are older.
    given: Option<HashSet<u128>>,
}

enum Source {
    /// Ordered by value with keep="last", newest first with keep="all".
    Bucket(Box<Pages>),
    /// Newest first; with keep="last" each value once.
    Places(Box<HotKeyReader>),
}

impl KeyRows {
    pub(crate) async fn new(
        context: &Arc<TableContext>,
        metadata: &Arc<TableMetadata>,
        (by, key): (Side, &str),
        visible: VisibleRange,
    ) -> Result<KeyRows> {
        let source = if metadata.hot.shards(by, key).is_some() {
            let which = RowSelection::Counting(visible.dates());
            Source::Places(Box::new(
                HotKeyReader::new(context, metadata, (by, key), None, which).await?,
            ))
        } else {
            Source::Bucket(Box::new(context.key_pages(metadata, (by, key), visible.dates())))
        };
        let (context, metadata) = (Arc::clone(context), Arc::clone(metadata));
        let given = (metadata.definition.keep == Keep::All).then(HashSet::new);
        let key = key.to_owned();
        Ok(KeyRows { context, metadata, visible, by, key, source, read: 0, given })
    }

    /// The answers of the next page, each value once; `None` after the last page.
    pub(crate) async fn page(&mut self) -> Result<Option<Vec<(String, SeenAt)>>> {
        let (metadata, key) = (&self.metadata, self.key.as_str());
        let shows = |value: &str, date| metadata.shows(&self.visible, self.by, (key, value, date));
        let mut page = match &mut self.source {
            Source::Bucket(pages) => {
                let Some(page) = pages.next().await? else { return Ok(None) };
                self.read += page.len() as u64;
                let mut rows = Vec::with_capacity(page.len());
                self.context.each_row(&page, |(_, value, date)| {
                    if shows(value, date) {
                        rows.push((value.to_owned(), date));
                    }
                    Ok(())
                })?;
                rows
            }
            Source::Places(places) => {
                let Some(mut rows) = places.next().await? else { return Ok(None) };
                self.read += rows.len() as u64;
                rows.retain(|(value, date)| shows(value, *date));
                rows
            }
        };
        self.context.report_rows(self.by, &self.key, self.read);
        if let Some(given) = &mut self.given {
            page.retain(|(value, _)| given.insert(self.context.buckets.hash(value)));
        }
        Ok(Some(page))
    }

    /// The newest answers, at most `limit`, newest first.
    async fn newest(mut self, limit: usize) -> Result<Vec<(String, SeenAt)>> {
        let is_ordered = self.given.is_some() || matches!(self.source, Source::Places(_));
        let mut found = Vec::new();
        while let Some(page) = self.page().await? {
            found.extend(page);
            if is_ordered && found.len() >= limit {
                break;
            }
        }
        if !is_ordered {
            found.sort_unstable_by(|a, b| {
                newest_first((a.1, a.0.as_bytes()), (b.1, b.0.as_bytes()))
            });
        }
        found.truncate(limit);
        Ok(found)
    }
}

/// Looks up keys. Cost: one request for each 5,000 rows of a key; for a hot key one request for each
/// shard, then one for each 5,000 rows. A hot key is read until the limit is reached.
pub(crate) async fn lookup_many(
    context: &Arc<TableContext>,
    keys: &[&str],
    Lookup { by, window, limit }: Lookup,
    at: SeenAt,
) -> Result<Answers> {
    let metadata = context.metadata_cache.current().await?;
    let visible = metadata.visible_range(window, at);
    let hot = Semaphore::new(CONCURRENT_HOT_KEYS);
    let (metadata, hot) = (&metadata, &hot);
    let mut found = stream::iter(keys)
        .map(|key| async move {
            let _few = match metadata.hot.shards(by, key) {
                Some(_) => hot.acquire().await.ok(),
                None => None,
            };
            KeyRows::new(context, metadata, (by, key), visible).await?.newest(limit).await
        })
        .buffered(CONCURRENT_KEYS);
    let mut answers = Answers::new(keys.len());
    while let Some(rows) = found.try_next().await? {
        for (value, seen_at) in rows {
            answers.push(&value, seen_at)?;
        }
        answers.end_key();
    }
    Ok(answers)
}

/// The newest date of a pair. Cost: one request; with keep="all" the requests for newer rows of the key, too.
pub(crate) async fn last_seen(
    context: &Arc<TableContext>,
    pair: (&str, &str),
    at: SeenAt,
) -> Result<Option<SeenAt>> {
    Ok(dates(context, pair, at, 1).await?.first().copied())
}

/// The dates of a pair, newest first. Cost: one request; with keep="all" the requests for other rows of the
/// key, too.
pub(crate) async fn history(
    context: &Arc<TableContext>,
    pair: (&str, &str),
    at: SeenAt,
) -> Result<Vec<SeenAt>> {
    dates(context, pair, at, usize::MAX).await
}

async fn dates(
    context: &Arc<TableContext>,
    (id, partner_id): (&str, &str),
    at: SeenAt,
    most: usize,
) -> Result<Vec<SeenAt>> {
    let metadata = context.metadata_cache.current().await?;
    // Both directions have the pair; the lookup uses the key that is not hot.
    let is_hot = |by, key| metadata.hot.shards(by, key).is_some();
    let by = match is_hot(Side::Id, id) && !is_hot(Side::PartnerId, partner_id) {
        true => Side::PartnerId,
        false => Side::Id,
    };
    let (key, value) = match by {
        Side::Id => (id, partner_id),
        Side::PartnerId => (partner_id, id),
    };
    let visible = metadata.visible_range(Window::ALL, at);
    let shows = |date: SeenAt| metadata.shows(&visible, by, (key, value, date));
    if metadata.definition.keep == Keep::Last {
        let date = row(context, &metadata, by, (key, value, SeenAt::EPOCH)).await?;
        return Ok(date.filter(|date| shows(*date)).into_iter().collect());
    }
    let mut found = Vec::new();
    let which = RowSelection::Counting(visible.dates());
    let mut places = HotKeyReader::new(context, &metadata, (by, key), Some(value), which).await?;
    while found.len() < most
        && let Some(rows) = places.next().await?
    {
        let dates = rows.into_iter().filter(|row| row.0 == value && shows(row.1)).map(|row| row.1);
        found.extend(dates);
    }
    found.truncate(most);
    Ok(found)
}
