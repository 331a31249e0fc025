//! The catalog: the definitions of tables in `idmatch_tables`, by the id of the table.
//!
//! Every change is a conditional write, so that one of two concurrent clients comes first. A client that gets
//! no answer to its change reads the result.

use super::definition::{Definition, FormerRetention};
use super::values::{table_id, uuid};
use crate::client::Client;
use crate::error::unexpected;
use idmatch_model::{Keep, Period, SeenAt, TableId, TableName};
use idmatch_store::{Error, ErrorKind, Result, now};
use scylla::value::CqlTimestamp;
use std::sync::Arc;
use uuid::Uuid;

/// Generations that fit in a row's timestamp.
const MOST_GENERATIONS: i32 = 998;

/// Columns: name, keep, buckets, retention, kept, kept_until, hidden_before, generation, rewritten, dropped_at.
type Statics = (
    Option<String>,
    Option<String>,
    Option<i32>,
    Option<String>,
    Option<String>,
    Option<CqlTimestamp>,
    Option<CqlTimestamp>,
    Option<i32>,
    Option<i32>,
    Option<CqlTimestamp>,
);

/// A table with CQL tables of its own: when it was made, and when it was dropped.
pub(crate) struct CatalogTable {
    pub(crate) id: TableId,
    pub(crate) made_at: Option<SeenAt>,
    pub(crate) dropped_at: Option<SeenAt>,
}

/// Reads and changes the definitions of one keyspace.
pub(crate) struct KeyspaceCatalog<'c> {
    client: &'c Arc<Client>,
    keyspace: &'c str,
}

impl<'c> KeyspaceCatalog<'c> {
    pub(crate) fn new(client: &'c Arc<Client>) -> KeyspaceCatalog<'c> {
        KeyspaceCatalog { client, keyspace: &client.settings().keyspace }
    }

    /// The definition of a table; `None` if there is no such table.
    pub(crate) async fn definition(&self, id: TableId) -> Result<Option<Definition>> {
        let what = format!("the definition of table {id}");
        let cql = format!(
            "SELECT DISTINCT name, keep, buckets, retention, kept, kept_until, hidden_before, \
             generation, rewritten, dropped_at FROM {}.idmatch_tables WHERE id = ?",
            self.keyspace
        );
        let read = self.client.prepare_catalog(&cql).await?;
        let rows = self.client.read(&what, &read, (uuid(id),)).await?;
        let statics = rows.maybe_first_row::<Statics>().map_err(|e| unexpected(&what, e))?;
        statics.map_or(Ok(None), |statics| definition(&what, statics))
    }

    /// Adds the definition of a new table, whose id no other client knows.
    pub(crate) async fn enter(&self, id: TableId, new: &Definition) -> Result<()> {
        let cql = format!(
            "INSERT INTO {}.idmatch_tables \
             (id, entry, name, keep, buckets, retention, generation, rewritten, made_at) \
             VALUES (?, 0, ?, ?, ?, ?, 0, 0, ?) IF NOT EXISTS",
            self.keyspace
        );
        let keep = match new.keep {
            Keep::Last => "last",
            Keep::All => "all",
        };
        let retention = new.retention.as_ref().map(ToString::to_string);
        let values = (uuid(id), new.name.as_str(), keep, new.buckets, retention, timestamp(now()));
        self.change(&format!("table {}", new.name), &cql, values).await
    }

    /// Moves a table to the next generation of its retention. `Busy` if another client changed the retention
    /// meanwhile.
    pub(crate) async fn set_retention(&self, id: TableId, new: &Definition) -> Result<()> {
        let name = &new.name;
        if new.generation > MOST_GENERATIONS {
            let text = format!(
                "the retention of table {name} was changed too often; load into a new table, and \
                 exchange their names"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let cql = format!(
            "UPDATE {}.idmatch_tables SET retention = ?, kept = ?, kept_until = ?, hidden_before = ?, \
             generation = ? WHERE id = ? IF generation = ?",
            self.keyspace
        );
        let text = |period: &Option<Period>| period.as_ref().map(ToString::to_string);
        let (kept, until) = match &new.kept {
            Some(kept) => (text(&kept.retention), Some(timestamp(kept.until))),
            None => (None, None),
        };
        let (retention, hidden_before) = (text(&new.retention), new.hidden_before.map(timestamp));
        let generation = new.generation;
        let values = (retention, kept, until, hidden_before, generation, uuid(id), generation - 1);
        self.change(&format!("the retention of table {name}"), &cql, values).await?;
        match self.definition(id).await? {
            Some(now) if now.generation == generation && now.retention == new.retention => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Busy,
                format!("another client changed the retention of table {name}; try again"),
            )),
        }
    }

    /// Records that all rows have been rewritten for a generation, and hides none of them any more.
    pub(crate) async fn set_rewritten(&self, id: TableId, generation: i32) -> Result<()> {
        let cql = format!(
            "UPDATE {}.idmatch_tables SET rewritten = ?, hidden_before = null \
             WHERE id = ? IF generation = ?",
            self.keyspace
        );
        self.change("a retention", &cql, (generation, uuid(id), generation)).await
    }

    /// Notes the name that a table has now, for messages.
    pub(crate) async fn set_name(&self, id: TableId, name: &TableName) -> Result<()> {
        let cql = format!(
            "UPDATE {}.idmatch_tables SET name = ? WHERE id = ? IF dropped_at = null",
            self.keyspace
        );
        self.change("the name of a table", &cql, (name.as_str(), uuid(id))).await
    }

    /// Marks a table as dropped: every client refuses it one metadata TTL later.
    pub(crate) async fn set_dropped(&self, id: TableId) -> Result<()> {
        let cql = format!(
            "UPDATE {}.idmatch_tables SET dropped_at = ? WHERE id = ? IF dropped_at = null",
            self.keyspace
        );
        self.change("a dropped table", &cql, (timestamp(now()), uuid(id))).await
    }

    /// Forgets a table whose CQL tables are gone. Its log stays where a name still has it.
    pub(crate) async fn forget(&self, id: TableId, log_stays: bool) -> Result<()> {
        let keyspace = self.keyspace;
        let cql = match log_stays {
            true => format!(
                "UPDATE {keyspace}.idmatch_tables SET keep = null WHERE id = ? IF generation >= 0"
            ),
            false => format!("DELETE FROM {keyspace}.idmatch_tables WHERE id = ?"),
        };
        self.change("a dropped table", &cql, (uuid(id),)).await
    }

    /// All tables that have CQL tables, also dropped ones. Cost: reads all partitions of the catalog.
    pub(crate) async fn tables(&self) -> Result<Vec<CatalogTable>> {
        let what = "the tables";
        let cql = format!(
            "SELECT DISTINCT id, keep, made_at, dropped_at FROM {}.idmatch_tables",
            self.keyspace
        );
        let read = self.client.prepare_catalog(&cql).await?;
        let rows = self.client.read(what, &read, ()).await?;
        let rows =
            rows.rows::<(Uuid, Option<String>, Option<CqlTimestamp>, Option<CqlTimestamp>)>();
        let mut tables = Vec::new();
        for row in rows.map_err(|e| unexpected(what, e))? {
            let (id, keep, made_at, dropped_at) = row.map_err(|e| unexpected(what, e))?;
            if keep.is_some() {
                let (made_at, dropped_at) = (date(what, made_at)?, date(what, dropped_at)?);
                tables.push(CatalogTable { id: table_id(id), made_at, dropped_at });
            }
        }
        Ok(tables)
    }

    async fn change(
        &self,
        what: &str,
        cql: &str,
        values: impl scylla::serialize::row::SerializeRow,
    ) -> Result<()> {
        let change = self.client.prepare_catalog(cql).await?;
        self.client.write(what, &change, values).await.map(drop)
    }
}

fn definition(what: &str, statics: Statics) -> Result<Option<Definition>> {
    let missing = |column: &str| unexpected(what, format!("its {column} is not there, or wrong"));
    let (
        name,
        keep,
        buckets,
        retention,
        kept,
        kept_until,
        hidden_before,
        generation,
        rewritten,
        dropped_at,
    ) = statics;
    let keep = match keep.as_deref() {
        // There is no table, only a log.
        None => return Ok(None),
        Some("last") => Keep::Last,
        Some("all") => Keep::All,
        Some(_) => return Err(missing("keep")),
    };
    let period = |text: Option<String>| {
        text.map(|text| Period::parse(&text).map_err(|e| unexpected(what, e))).transpose()
    };
    let name = name.ok_or_else(|| missing("name"))?;
    let kept_until = date(what, kept_until)?;
    let kept = period(kept)?;
    Ok(Some(Definition {
        name: name.parse().map_err(|e| unexpected(what, e))?,
        keep,
        buckets: buckets.filter(|buckets| *buckets > 0).ok_or_else(|| missing("buckets"))?,
        retention: period(retention)?,
        kept: kept_until.map(|until| FormerRetention { retention: kept, until }),
        hidden_before: date(what, hidden_before)?,
        generation: generation.unwrap_or_default(),
        rewritten: rewritten.unwrap_or_default(),
        is_dropped: dropped_at.is_some(),
    }))
}

fn timestamp(at: SeenAt) -> CqlTimestamp {
    CqlTimestamp(at.millis_i64())
}

fn date(what: &str, value: Option<CqlTimestamp>) -> Result<Option<SeenAt>> {
    let date = value.map(|CqlTimestamp(millis)| SeenAt::from_millis(millis));
    date.transpose().map_err(|e| unexpected(what, e))
}
