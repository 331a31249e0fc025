//! Reads the rows of a statement page by page.

use crate::client::{Client, Prepared};
use crate::error::unexpected;
use idmatch_store::Result;
use scylla::deserialize::row::DeserializeRow;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::row::SerializeRow;
use std::sync::Arc;

/// The bound values of a statement.
type Values = Box<dyn SerializeRow + Send + Sync>;

/// The pages of a statement, each read on demand.
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
        // The paging state stays after an error, so that no caller takes the error for the end.
        let Some(paging_state) = self.next.clone() else { return Ok(None) };
        let (rows, next) =
            self.client.read_page(&self.what, &self.prepared, &self.values, paging_state).await?;
        self.next = next;
        Ok(Some(Page { rows, what: Arc::clone(&self.what) }))
    }

    /// Counts rows, until there are more than `enough`.
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

    /// Sets the rows of the pages that follow.
    pub(crate) fn set_page_rows(&mut self, rows: i32) {
        self.prepared.set_page_size(rows);
    }
}

/// A page of rows as the servers sent it.
pub(crate) struct Page {
    rows: QueryRowsResult,
    what: Arc<str>,
}

impl Page {
    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.rows_num()
    }

    /// Calls `take` with each row, in order.
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
