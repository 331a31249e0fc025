//! Reads the rows of a statement page by page.

use crate::client::{Client, Prepared};
use crate::error::unexpected;
use idmatch_store::Result;
use scylla::deserialize::row::DeserializeRow;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::row::SerializeRow;
use std::sync::Arc;

/// What a statement is asked with.
type Values = Box<dyn SerializeRow + Send + Sync>;

/// The rows of a statement. Pages are read when they are asked for.
pub(crate) struct Pages {
    client: Arc<Client>,
    what: Arc<str>,
    prepared: Prepared,
    values: Values,
    next: Option<PagingState>,
}

impl Pages {
    pub(crate) fn new(
        client: &Arc<Client>,
        what: &str,
        prepared: &Prepared,
        values: impl SerializeRow + Send + Sync + 'static,
    ) -> Pages {
        let (client, prepared, values) = (Arc::clone(client), prepared.clone(), Box::new(values));
        Pages { client, what: what.into(), prepared, values, next: Some(PagingState::start()) }
    }

    /// The next page; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Page>> {
        // It stays where it is if this fails, so that nobody takes an error for the end.
        let Some(metadata_cache) = self.next.clone() else { return Ok(None) };
        let (rows, next) =
            self.client.read_page(&self.what, &self.prepared, &self.values, metadata_cache).await?;
        self.next = next;
        Ok(Some(Page { rows, what: Arc::clone(&self.what) }))
    }

    /// Counts rows, until they are more than so many.
    pub(crate) async fn count(mut self, enough: u64) -> Result<u64> {
        let mut rows = 0;
        while rows <= enough
            && let Some(page) = self.next().await?
        {
            rows += page.len() as u64;
        }
        Ok(rows)
    }

    /// Whether there may be another page.
    pub(crate) fn has_more(&self) -> bool {
        self.next.is_some()
    }

    /// Reads the pages that follow so large.
    pub(crate) fn set_page_rows(&mut self, rows: i32) {
        self.prepared.set_page_size(rows);
    }
}

/// Some rows as the servers gave them.
pub(crate) struct Page {
    rows: QueryRowsResult,
    what: Arc<str>,
}

impl Page {
    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.rows_num()
    }

    /// Takes each row, in order.
    pub(crate) fn each<'p, R: DeserializeRow<'p, 'p>>(
        &'p self,
        mut take: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        for row in self.rows.rows::<R>().map_err(|e| unexpected(&self.what, e))? {
            take(row.map_err(|e| unexpected(&self.what, e))?)?;
        }
        Ok(())
    }
}
