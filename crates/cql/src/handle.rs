//! What everything that is done with one table needs: the connection, the statements, the state; and
//! single rows and keys, wherever they are.

use crate::bucket::{BucketRows, bucket};
use crate::catalog::{Catalog, Note};
use crate::client::{Client, Prepared};
use crate::errors::unexpected;
use crate::hot::{self, HotRows, Which};
use crate::pages::{Page, Pages};
use crate::state::{Dates, Known, State};
use crate::statements::{Direction, Hot, Loads, Statements};
use idmatch_model::{Keep, SeenAt, Side, TableName};
use idmatch_store::{Result, now};
use scylla::serialize::row::SerializeRow;
use scylla::value::CqlTimestamp;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::try_join;

/// The timestamps of rows are microseconds: a thousand in each millisecond of seen_at. The last is
/// for erasures, which hide all rows of their millisecond; the others for generations.
const STEPS: i64 = 1_000;
/// The last second at which rows may expire: 2038-01-18. Many servers take no later one, nor a time to
/// live of more than 20 years. A row that would live longer gets none, and `compact` removes it.
const LAST_EXPIRY_SECONDS: i64 = i32::MAX as i64 - 86_400;
/// Rows live on for so long after their retention has ended: calendar months differ, and it is the
/// filter of reads that is exact.
const TTL_MARGIN_SECONDS: i64 = 4 * 86_400;
const MILLIS: i64 = 1_000;

/// A row of a direction: key, value, date.
pub(crate) type Row<'r> = (&'r str, &'r str, SeenAt);

/// A table's connection, statements and state.
pub(crate) struct Handle {
    pub(crate) client: Arc<Client>,
    pub(crate) state: Arc<State>,
    /// Held while keys with very many rows are noted.
    pub(crate) noting: Mutex<()>,
    statements: Statements,
    /// By id and by partner_id.
    bucket_rows: [BucketRows; 2],
}

impl Handle {
    pub(crate) async fn open(client: Arc<Client>, state: Arc<State>, keep: Keep) -> Result<Handle> {
        let catalog = Catalog::new(&client);
        let prepared = Statements::prepare(&client, state.name(), keep);
        let (statements, ()) = try_join!(prepared, catalog.prepare())?;
        let (noting, bucket_rows) = (Mutex::default(), Default::default());
        Ok(Handle { client, state, noting, statements, bucket_rows })
    }

    /// How many rows the buckets of a direction have.
    pub(crate) fn bucket_rows(&self, by: Side) -> &BucketRows {
        let [by_id, by_partner_id] = &self.bucket_rows;
        match by {
            Side::Id => by_id,
            Side::PartnerId => by_partner_id,
        }
    }

    pub(crate) fn name(&self) -> &TableName {
        self.state.name()
    }

    pub(crate) fn by(&self, by: Side) -> &Direction {
        self.statements.by(by)
    }

    /// The statements for keys with very many rows.
    pub(crate) fn hot(&self) -> &Hot {
        &self.statements.hot
    }

    /// The statements for what loads have written.
    pub(crate) fn loads(&self) -> &Loads {
        &self.statements.loads
    }

    /// What is read, as an error names it.
    pub(crate) fn what(&self) -> String {
        format!("table {}", self.name())
    }

    /// Enters notes into the table's log, after what was known then; returns when every client knows.
    pub(crate) async fn publish(&self, known: &Known, notes: &[(u128, Note)]) -> Result<()> {
        Catalog::new(&self.client).publish(self.name(), known.last_entry, notes).await?;
        self.state.refresh().await?;
        tokio::time::sleep(self.state.lease()).await;
        Ok(())
    }

    /// The rows that a key has in its bucket. With keep="all" they are newest first, and only those that
    /// were seen between these dates; with keep="last" all, in the order of values.
    pub(crate) fn key_pages(
        &self,
        known: &Known,
        (by, key): (Side, &str),
        Dates(since, until): Dates,
    ) -> Pages {
        let statement = &self.by(by).key;
        let (bucket, key) = (bucket(key, known.definition.buckets), key.to_owned());
        match known.definition.keep {
            Keep::Last => self.pages(statement, (bucket, key)),
            Keep::All => self.pages(statement, (bucket, key, since, until)),
        }
    }

    /// The same for some keys of one bucket, key by key.
    pub(crate) fn keys_pages(
        &self,
        known: &Known,
        (by, bucket, keys): (Side, i32, Vec<String>),
        Dates(since, until): Dates,
    ) -> Pages {
        let statement = &self.by(by).keys;
        match known.definition.keep {
            Keep::Last => self.pages(statement, (bucket, keys)),
            Keep::All => self.pages(statement, (bucket, keys, since, until)),
        }
    }

    /// The rows that a statement gives.
    pub(crate) fn pages(
        &self,
        statement: &Prepared,
        values: impl SerializeRow + Send + Sync + 'static,
    ) -> Pages {
        Pages::new(&self.client, &self.what(), statement, values)
    }

    /// Takes the rows of a page of a direction.
    pub(crate) fn each_row<'p>(
        &self,
        page: &'p Page,
        mut take: impl FnMut(Row<'p>) -> Result<()>,
    ) -> Result<()> {
        page.each(|(key, value, CqlTimestamp(date)): (&str, &str, CqlTimestamp)| {
            let date = SeenAt::from_millis(date).map_err(|e| unexpected(&self.what(), e))?;
            take((key, value, date))
        })
    }

    /// The date of a row, if it is there: with keep="last" whatever that is, with keep="all" the one
    /// that is asked for.
    pub(crate) async fn row(
        self: &Arc<Handle>,
        known: &Known,
        by: Side,
        (key, value, seen_at): Row<'_>,
    ) -> Result<Option<SeenAt>> {
        let keep = known.definition.keep;
        if known.hot.parts(by, key).is_some() {
            let which = Which::Counting(Dates::of(seen_at));
            let mut rows = HotRows::new(self, known, (by, key), Some(value), which).await?;
            let is_it =
                |row: &(String, SeenAt)| row.0 == value && (keep == Keep::Last || row.1 == seen_at);
            while let Some(some) = rows.next().await? {
                if let Some(row) = some.into_iter().find(is_it) {
                    return Ok(Some(row.1));
                }
            }
            return Ok(None);
        }
        let select = &self.by(by).row;
        let (bucket, key, value) =
            (bucket(key, known.definition.buckets), key.to_owned(), value.to_owned());
        let mut pages = match keep {
            Keep::Last => self.pages(select, (bucket, key, value)),
            Keep::All => {
                let seen_at = CqlTimestamp(seen_at.millis_i64());
                self.pages(select, (bucket, key, value, seen_at))
            }
        };
        let mut found = None;
        while let Some(page) = pages.next().await? {
            self.each_row(&page, |row| {
                found = Some(row.2);
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// How many rows a key has at least: counting ends soon after they are very many.
    pub(crate) async fn count(self: &Arc<Handle>, by: Side, key: &str) -> Result<u64> {
        let known = self.state.current().await?;
        if let Some(parts) = known.hot.parts(by, key) {
            return hot::count(self, (by, key, parts)).await;
        }
        let pages = self.key_pages(&known, (by, key), Dates::ALL);
        pages.count(self.client.settings().hot_key_rows).await
    }

    /// Removes a row that was seen by then, in one direction. What was seen later stays.
    pub(crate) async fn delete_row(
        &self,
        known: &Known,
        by: Side,
        (key, value, seen_at): Row<'_>,
        at: SeenAt,
    ) -> Result<()> {
        if let Some(parts) = known.hot.parts(by, key) {
            hot::delete_row(self, (by, key, parts), (value, seen_at), at).await?;
        }
        let delete = &self.by(by).delete_row;
        let bucket = bucket(key, known.definition.buckets);
        let (at, what) = (erased_at(at), self.what());
        match known.definition.keep {
            Keep::Last => self.client.write(&what, delete, (at, bucket, key, value)).await,
            Keep::All => {
                let seen_at = CqlTimestamp(seen_at.millis_i64());
                self.client.write(&what, delete, (at, bucket, key, value, seen_at)).await
            }
        }
        .map(drop)
    }

    /// Removes what a key has that was seen by then, in one direction.
    pub(crate) async fn delete_key(
        &self,
        known: &Known,
        by: Side,
        key: &str,
        at: SeenAt,
    ) -> Result<()> {
        if let Some(parts) = known.hot.parts(by, key) {
            hot::delete_key(self, (by, key, parts), at).await?;
        }
        let delete = &self.by(by).delete_key;
        let values = (erased_at(at), bucket(key, known.definition.buckets), key);
        self.client.write(&self.what(), delete, values).await.map(drop)
    }
}

/// The timestamp of a row: of two with one pair the newer has the greater one.
pub(crate) fn written_at(known: &Known, seen_at: SeenAt) -> i64 {
    let generation = i64::from(known.definition.generation);
    seen_at.millis_i64() * STEPS + generation.clamp(0, STEPS - 2)
}

/// The timestamp that removes all rows up to a date.
pub(crate) fn erased_at(at: SeenAt) -> i64 {
    at.millis_i64() * STEPS + STEPS - 1
}

/// How long a row is to live, in seconds: 0 is for ever, `None` is that its time is over.
pub(crate) fn time_to_live(known: &Known, seen_at: SeenAt) -> Option<i32> {
    let Some(retention) = &known.definition.retention else { return Some(0) };
    let now = now();
    let oldest = retention.before(now);
    if oldest == SeenAt::EPOCH {
        // A retention longer than time.
        return Some(0);
    }
    let left = seen_at.millis_i64() - oldest.millis_i64();
    if left < 0 {
        return None;
    }
    let seconds = left / MILLIS + TTL_MARGIN_SECONDS;
    let expires = now.millis_i64() / MILLIS + seconds;
    Some(if expires > LAST_EXPIRY_SECONDS { 0 } else { i32::try_from(seconds).unwrap_or(0) })
}
