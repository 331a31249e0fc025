//! What goes with one key.
//!
//! With keep="all", and where a key has very many rows, they come newest first and are read page by page.
//! With keep="last" the servers have the others by value, so that all of a key are read and ordered here.

use super::hot_key::{HotRows, Which};
use super::row::row;
use crate::client::paging::Pages;
use crate::context::Handle;
use crate::schema::metadata_cache::{Known, Visible};
use idmatch_model::{Keep, SeenAt, Side, Window, newest_first};
use idmatch_store::{Answers, Result};
use std::collections::HashSet;
use std::sync::Arc;
use std::vec;

/// The rows of one key that are to be seen.
pub(crate) struct KeyRows {
    handle: Arc<Handle>,
    known: Arc<Known>,
    visible: Visible,
    by: Side,
    key: String,
    source: Source,
    read: u64,
}

enum Source {
    /// With keep="last" in the order of values, with keep="all" newest first.
    Bucket(Box<Pages>),
    /// Newest first; with keep="last" each value once.
    Places(Box<HotRows>),
}

impl KeyRows {
    pub(crate) async fn new(
        handle: &Arc<Handle>,
        known: &Arc<Known>,
        (by, key): (Side, &str),
        visible: Visible,
    ) -> Result<KeyRows> {
        let source = if known.hot.parts(by, key).is_some() {
            let which = Which::Counting(visible.dates());
            Source::Places(Box::new(HotRows::new(handle, known, (by, key), None, which).await?))
        } else {
            Source::Bucket(Box::new(handle.key_pages(known, (by, key), visible.dates())))
        };
        let (handle, known) = (Arc::clone(handle), Arc::clone(known));
        Ok(KeyRows { handle, known, visible, by, key: key.to_owned(), source, read: 0 })
    }

    /// The rows of the next page; `None` after the last.
    pub(crate) async fn page(&mut self) -> Result<Option<Vec<(String, SeenAt)>>> {
        let (known, key) = (&self.known, self.key.as_str());
        let shows = |value: &str, date| known.shows(&self.visible, self.by, (key, value, date));
        let page = match &mut self.source {
            Source::Bucket(pages) => {
                let Some(page) = pages.next().await? else { return Ok(None) };
                self.read += page.len() as u64;
                let mut rows = Vec::with_capacity(page.len());
                self.handle.each_row(&page, |(_, value, date)| {
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
        self.handle.report_rows(self.by, &self.key, self.read);
        Ok(Some(page))
    }

    /// Whether rows come newest first.
    fn is_ordered(&self) -> bool {
        self.known.definition.keep == Keep::All || matches!(self.source, Source::Places(_))
    }
}

/// The answers to a question by one key.
pub(crate) struct KeyAnswers {
    rows: KeyRows,
    page: vec::IntoIter<(String, SeenAt)>,
    /// With keep="all", what was given: later rows of the same value are older.
    given: Option<HashSet<String>>,
    current: (String, SeenAt),
}

/// Asks what goes with a key. Cost: one request for each 5,000 rows of it; of a key with very many rows,
/// a request for each of its parts and then for each 5,000 rows.
pub(crate) async fn answers(
    handle: &Arc<Handle>,
    by: Side,
    key: &str,
    window: Window,
) -> Result<KeyAnswers> {
    let known = handle.state.current().await?;
    let mut rows = KeyRows::new(handle, &known, (by, key), known.visible(window)).await?;
    let mut page = rows.page().await?.unwrap_or_default();
    if !rows.is_ordered() {
        while let Some(more) = rows.page().await? {
            page.extend(more);
        }
        page.sort_unstable_by(|a, b| newest_first((a.1, a.0.as_bytes()), (b.1, b.0.as_bytes())));
    }
    let given = (known.definition.keep == Keep::All).then(HashSet::new);
    let current = (String::new(), SeenAt::EPOCH);
    Ok(KeyAnswers { rows, page: page.into_iter(), given, current })
}

impl Answers for KeyAnswers {
    fn next_answer(&mut self) -> Result<Option<(&str, SeenAt)>> {
        loop {
            let Some(row) = self.page.next() else {
                let client = Arc::clone(&self.rows.handle.client);
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

/// The newest date of a pair. Cost: one request; with keep="all" as many as rows are newer.
pub(crate) async fn last_seen(
    handle: &Arc<Handle>,
    id: &str,
    partner_id: &str,
) -> Result<Option<SeenAt>> {
    Ok(dates(handle, id, partner_id, 1).await?.first().copied())
}

/// The dates of a pair, newest first. Cost: one request; with keep="all" as for [`answers`].
pub(crate) async fn history(
    handle: &Arc<Handle>,
    id: &str,
    partner_id: &str,
) -> Result<Vec<SeenAt>> {
    dates(handle, id, partner_id, usize::MAX).await
}

async fn dates(
    handle: &Arc<Handle>,
    id: &str,
    partner_id: &str,
    most: usize,
) -> Result<Vec<SeenAt>> {
    let known = handle.state.current().await?;
    // Both directions have the pair; the end with few rows is asked.
    let is_hot = |by, key| known.hot.parts(by, key).is_some();
    let by = match is_hot(Side::Id, id) && !is_hot(Side::PartnerId, partner_id) {
        true => Side::PartnerId,
        false => Side::Id,
    };
    let (key, value) = match by {
        Side::Id => (id, partner_id),
        Side::PartnerId => (partner_id, id),
    };
    let visible = known.visible(Window::ALL);
    let shows = |date: SeenAt| known.shows(&visible, by, (key, value, date));
    if known.definition.keep == Keep::Last {
        let date = row(handle, &known, by, (key, value, SeenAt::EPOCH)).await?;
        return Ok(date.filter(|date| shows(*date)).into_iter().collect());
    }
    let mut found = Vec::new();
    let which = Which::Counting(visible.dates());
    let mut places = HotRows::new(handle, &known, (by, key), Some(value), which).await?;
    while found.len() < most
        && let Some(rows) = places.next().await?
    {
        let dates = rows.into_iter().filter(|row| row.0 == value && shows(row.1)).map(|row| row.1);
        found.extend(dates);
    }
    found.truncate(most);
    Ok(found)
}
