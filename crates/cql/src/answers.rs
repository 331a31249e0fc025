//! What goes with one key.
//!
//! With keep="all" rows come newest first and are read page by page. With keep="last" the
//! servers have them by value, so that all of a key are read and ordered here.

use crate::bucket::bucket;
use crate::errors::unexpected;
use crate::handle::{Handle, StoredRow};
use crate::state::{Known, Visible};
use idmatch_model::{Keep, SeenAt, Side, Window, newest_first};
use idmatch_store::{Answers, Result};
use scylla::response::PagingState;
use std::collections::HashSet;
use std::sync::Arc;
use std::vec;

/// The rows of one key that are to be seen, as the servers give them.
struct KeyRows {
    handle: Arc<Handle>,
    known: Arc<Known>,
    visible: Visible,
    by: Side,
    key: String,
    next: Option<PagingState>,
}

impl KeyRows {
    async fn new(handle: &Arc<Handle>, by: Side, key: &str, window: Window) -> Result<KeyRows> {
        let known = handle.state.current().await?;
        let visible = known.visible(window);
        let (handle, key) = (Arc::clone(handle), key.to_owned());
        Ok(KeyRows { handle, known, visible, by, key, next: Some(PagingState::start()) })
    }

    /// The rows of the next page; `None` after the last.
    async fn page(&mut self) -> Result<Option<Vec<(String, SeenAt)>>> {
        let Some(state) = self.next.take() else { return Ok(None) };
        let (client, what) = (&self.handle.client, self.handle.what());
        let statement = self.handle.by(self.by).key.get(client).await?;
        let values = (bucket(&self.key, self.known.definition.buckets), self.key.as_str());
        let (rows, next) = client.read_page(&what, statement, values, state).await?;
        self.next = next;
        let mut page = Vec::with_capacity(rows.rows_num());
        for row in rows.rows::<StoredRow<'_>>().map_err(|e| unexpected(&what, e))? {
            let (key, value, date) = row.map_err(|e| unexpected(&what, e))?;
            let date = self.handle.seen_at(date)?;
            if self.known.shows(&self.visible, self.by, (key, value, date)) {
                page.push((value.to_owned(), date));
            }
        }
        Ok(Some(page))
    }

    async fn all(&mut self) -> Result<Vec<(String, SeenAt)>> {
        let mut rows = Vec::new();
        while let Some(page) = self.page().await? {
            rows.extend(page);
        }
        Ok(rows)
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

/// Asks what goes with a key. Cost: one request for each 5,000 rows of it.
pub(crate) async fn answers(
    handle: &Arc<Handle>,
    by: Side,
    key: &str,
    window: Window,
) -> Result<KeyAnswers> {
    let mut rows = KeyRows::new(handle, by, key, window).await?;
    let (page, given) = match rows.known.definition.keep {
        Keep::Last => {
            let mut all = rows.all().await?;
            all.sort_unstable_by(|a, b| newest_first((a.1, a.0.as_bytes()), (b.1, b.0.as_bytes())));
            (all, None)
        }
        Keep::All => (rows.page().await?.unwrap_or_default(), Some(HashSet::new())),
    };
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
    let mut rows = KeyRows::new(handle, Side::Id, id, Window::ALL).await?;
    if rows.known.definition.keep == Keep::Last {
        return Ok(history(handle, id, partner_id).await?.first().copied());
    }
    while let Some(page) = rows.page().await? {
        if let Some(row) = page.into_iter().find(|row| row.0 == partner_id) {
            return Ok(Some(row.1));
        }
    }
    Ok(None)
}

/// The dates of a pair, newest first. Cost: one request; with keep="all" as for [`answers`].
pub(crate) async fn history(
    handle: &Arc<Handle>,
    id: &str,
    partner_id: &str,
) -> Result<Vec<SeenAt>> {
    let mut rows = KeyRows::new(handle, Side::Id, id, Window::ALL).await?;
    let known = &rows.known;
    if known.definition.keep == Keep::Last {
        let date = handle.row(known, Side::Id, (id, partner_id, SeenAt::EPOCH)).await?;
        let shows = |date: &SeenAt| known.shows(&rows.visible, Side::Id, (id, partner_id, *date));
        return Ok(date.filter(shows).into_iter().collect());
    }
    let mut dates = Vec::new();
    while let Some(page) = rows.page().await? {
        dates.extend(page.into_iter().filter(|row| row.0 == partner_id).map(|row| row.1));
    }
    Ok(dates)
}
