//! Looks up the rows of one key.
//!
//! With keep="all", and for a hot key, rows come newest first, page by page. With keep="last" the
//! servers order the other rows by value, so a lookup reads all rows of the key and sorts them.

use super::row::row;
use super::shard_merge::{HotRows, Which};
use crate::client::paging::Pages;
use crate::context::TableContext;
use crate::schema::metadata_cache::{TableMetadata, Visible};
use idmatch_model::{Keep, SeenAt, Side, Window, newest_first};
use idmatch_store::{Answers, Result};
use std::collections::HashSet;
use std::sync::Arc;
use std::vec;

/// The visible rows of one key.
pub(crate) struct KeyRows {
    context: Arc<TableContext>,
    metadata: Arc<TableMetadata>,
    visible: Visible,
    by: Side,
    key: String,
    source: Source,
    read: u64,
}

enum Source {
    /// Ordered by value with keep="last", newest first with keep="all".
    Bucket(Box<Pages>),
    /// Newest first; with keep="last" each value once.
    Places(Box<HotRows>),
}

impl KeyRows {
    pub(crate) async fn new(
        context: &Arc<TableContext>,
        metadata: &Arc<TableMetadata>,
        (by, key): (Side, &str),
        visible: Visible,
    ) -> Result<KeyRows> {
        let source = if metadata.hot.shards(by, key).is_some() {
            let which = Which::Counting(visible.dates());
            Source::Places(Box::new(HotRows::new(context, metadata, (by, key), None, which).await?))
        } else {
            Source::Bucket(Box::new(context.key_pages(metadata, (by, key), visible.dates())))
        };
        let (context, metadata) = (Arc::clone(context), Arc::clone(metadata));
        Ok(KeyRows { context, metadata, visible, by, key: key.to_owned(), source, read: 0 })
    }

    /// The rows of the next page; `None` after the last.
    pub(crate) async fn page(&mut self) -> Result<Option<Vec<(String, SeenAt)>>> {
        let (metadata, key) = (&self.metadata, self.key.as_str());
        let shows = |value: &str, date| metadata.shows(&self.visible, self.by, (key, value, date));
        let page = match &mut self.source {
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
        Ok(Some(page))
    }

    /// Whether rows come newest first.
    fn is_ordered(&self) -> bool {
        self.metadata.definition.keep == Keep::All || matches!(self.source, Source::Places(_))
    }
}

/// The answers of a lookup by one key.
pub(crate) struct KeyAnswers {
    rows: KeyRows,
    page: vec::IntoIter<(String, SeenAt)>,
    /// With keep="all", the values that were returned: later rows of the same value are older.
    given: Option<HashSet<String>>,
    current: (String, SeenAt),
}

/// Looks up a key. Cost: one request for each 5,000 rows; for a hot key one request for each shard,
/// then one for each 5,000 rows.
pub(crate) async fn answers(
    context: &Arc<TableContext>,
    by: Side,
    key: &str,
    window: Window,
) -> Result<KeyAnswers> {
    let metadata = context.metadata_cache.current().await?;
    let mut rows = KeyRows::new(context, &metadata, (by, key), metadata.visible(window)).await?;
    let mut page = rows.page().await?.unwrap_or_default();
    if !rows.is_ordered() {
        while let Some(more) = rows.page().await? {
            page.extend(more);
        }
        page.sort_unstable_by(|a, b| newest_first((a.1, a.0.as_bytes()), (b.1, b.0.as_bytes())));
    }
    let given = (metadata.definition.keep == Keep::All).then(HashSet::new);
    let current = (String::new(), SeenAt::EPOCH);
    Ok(KeyAnswers { rows, page: page.into_iter(), given, current })
}

impl Answers for KeyAnswers {
    fn next_answer(&mut self) -> Result<Option<(&str, SeenAt)>> {
        loop {
            let Some(row) = self.page.next() else {
                let client = Arc::clone(&self.rows.context.client);
                match client.wait(self.rows.page())? {
                    Some(page) => self.page = page.into_iter(),
                    None => return Ok(None),
                }
                continue;
            };
            if self.given.as_mut().is_none_or(|given| given.insert(row.0.clone())) {
                self.current = row;
                return Ok(Some((&self.current.0, self.current.1)));
            }
        }
    }
}

/// The newest date of a pair. Cost: one request; with keep="all" as many as newer rows take.
pub(crate) async fn last_seen(
    context: &Arc<TableContext>,
    id: &str,
    partner_id: &str,
) -> Result<Option<SeenAt>> {
    Ok(dates(context, id, partner_id, 1).await?.first().copied())
}

/// The dates of a pair, newest first. Cost: one request; with keep="all" as for [`answers`].
pub(crate) async fn history(
    context: &Arc<TableContext>,
    id: &str,
    partner_id: &str,
) -> Result<Vec<SeenAt>> {
    dates(context, id, partner_id, usize::MAX).await
}

async fn dates(
    context: &Arc<TableContext>,
    id: &str,
    partner_id: &str,
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
    let visible = metadata.visible(Window::ALL);
    let shows = |date: SeenAt| metadata.shows(&visible, by, (key, value, date));
    if metadata.definition.keep == Keep::Last {
        let date = row(context, &metadata, by, (key, value, SeenAt::EPOCH)).await?;
        return Ok(date.filter(|date| shows(*date)).into_iter().collect());
    }
    let mut found = Vec::new();
    let which = Which::Counting(visible.dates());
    let mut places = HotRows::new(context, &metadata, (by, key), Some(value), which).await?;
    while found.len() < most
        && let Some(rows) = places.next().await?
    {
        let dates = rows.into_iter().filter(|row| row.0 == value && shows(row.1)).map(|row| row.1);
        found.extend(dates);
    }
    found.truncate(most);
    Ok(found)
}
