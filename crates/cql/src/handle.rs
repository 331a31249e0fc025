//! What everything that is done with one table needs: the connection, the statements, the state.

use crate::bucket::bucket;
use crate::client::Client;
use crate::errors::unexpected;
use crate::state::{Known, State};
use crate::statements::{Direction, Statements};
use idmatch_model::{Keep, SeenAt, Side, TableName};
use idmatch_store::{Result, now};
use scylla::value::CqlTimestamp;
use std::sync::Arc;

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

/// A row as the servers give it: key, value, seen_at.
pub(crate) type StoredRow<'r> = (&'r str, &'r str, CqlTimestamp);

/// A table's connection, statements and state.
pub(crate) struct Handle {
    pub(crate) client: Arc<Client>,
    pub(crate) state: Arc<State>,
    statements: Statements,
}

impl Handle {
    pub(crate) fn new(client: Arc<Client>, state: Arc<State>, keep: Keep) -> Handle {
        let statements = Statements::new(&client.settings().keyspace, state.name(), keep);
        Handle { client, state, statements }
    }

    pub(crate) fn name(&self) -> &TableName {
        self.state.name()
    }

    pub(crate) fn by(&self, by: Side) -> &Direction {
        self.statements.by(by)
    }

    /// What is read, as an error names it.
    pub(crate) fn what(&self) -> String {
        format!("table {}", self.name())
    }

    /// The date of a row, if it is there: with keep="last" whatever that is, with keep="all" the one
    /// that is asked for.
    pub(crate) async fn row(
        &self,
        known: &Known,
        by: Side,
        (key, value, seen_at): (&str, &str, SeenAt),
    ) -> Result<Option<SeenAt>> {
        let select = self.by(by).row.get(&self.client).await?;
        let bucket = bucket(key, known.definition.buckets);
        let what = self.what();
        let rows = match known.definition.keep {
            Keep::Last => self.client.read(&what, select, (bucket, key, value)).await?,
            Keep::All => {
                let seen_at = CqlTimestamp(seen_at.millis_i64());
                self.client.read(&what, select, (bucket, key, value, seen_at)).await?
            }
        };
        let row = rows.maybe_first_row::<StoredRow<'_>>().map_err(|e| unexpected(&what, e))?;
        row.map(|row| self.seen_at(row.2)).transpose()
    }

    /// A date as it is stored.
    pub(crate) fn seen_at(&self, CqlTimestamp(millis): CqlTimestamp) -> Result<SeenAt> {
        SeenAt::from_millis(millis).map_err(|e| unexpected(&self.what(), e))
    }

    /// Removes a row that was seen by then, in one direction. What was seen later stays.
    pub(crate) async fn delete_row(
        &self,
        known: &Known,
        by: Side,
        (key, value, seen_at): (&str, &str, SeenAt),
        at: SeenAt,
    ) -> Result<()> {
        let delete = self.by(by).delete_row.get(&self.client).await?;
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
        let delete = self.by(by).delete_key.get(&self.client).await?;
        let values = (erased_at(at), bucket(key, known.definition.buckets), key);
        self.client.write(&self.what(), delete, values).await.map(drop)
    }
}

/// The timestamp of a row: of two with one pair the newer has the greater one.
pub(crate) fn written_at(known: &Known, seen_at: SeenAt) -> i64 {
    let generation = i64::from(known.definition.generation);
    seen_at.millis_i64() * STEPS + generation.rem_euclid(STEPS - 1)
}

/// The timestamp that removes all rows up to a date.
fn erased_at(at: SeenAt) -> i64 {
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
