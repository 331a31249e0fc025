//! The catalog: the rows of `idmatch_tables` and `idmatch_hashes`. They hold the options of each
//! table, and its log of tombstones and hot keys.
//!
//! Every change is a conditional write, so one of two clients comes first. A client that may have
//! been first and got no answer reads the result.

use crate::client::Client;
use crate::client::paging::Pages;
use crate::error::unexpected;
use idmatch_model::{Keep, Period, SeenAt, TableId, TableName, TableOptions};
use idmatch_store::{Error, ErrorKind, Result, now};
use scylla::value::CqlTimestamp;
use scylla::value::MaybeUnset::{Set, Unset};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::try_join;
use twox_hash::XxHash3_128;
use uuid::Uuid;

/// Generations that fit in a row's timestamp.
const MOST_GENERATIONS: i32 = 998;
/// Log records of one request.
const ROWS_AT_ONCE: usize = 500;
/// Age, by the servers' clocks, from which a log entry is old: far above a metadata TTL plus the
/// clock difference.
const OLD: Duration = Duration::from_secs(600);
/// Log records of one entry.
const ENTRY: usize = 10_000;

/// A table's options and state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub(crate) keep: Keep,
    pub(crate) retention: Option<Period>,
    /// Rows before this date are gone for good: an earlier retention hid them.
    pub(crate) gone_before: SeenAt,
    /// The number of retention changes. It is part of the rows' timestamps, so a row that is
    /// written again takes the newer TTL.
    pub(crate) generation: i32,
    /// The generation to which all rows have been rewritten.
    pub(crate) rewritten: i32,
    pub(crate) buckets: i32,
    pub(crate) maker: Uuid,
    pub(crate) is_ready: bool,
}

impl Definition {
    pub(crate) fn new(options: &TableOptions, buckets: i32, maker: Uuid) -> Definition {
        Definition {
            keep: options.keep,
            retention: options.retention.clone(),
            gone_before: SeenAt::EPOCH,
            generation: 0,
            rewritten: 0,
            buckets,
            maker,
            is_ready: false,
        }
    }

    pub(crate) fn options(&self) -> TableOptions {
        TableOptions { keep: self.keep, retention: self.retention.clone() }
    }

    fn read(what: &str, statics: Statics) -> Result<Definition> {
        let missing =
            |column: &str| unexpected(what, format!("its {column} is not there, or wrong"));
        let (keep, retention, gone_before, generation, rewritten, buckets, maker, is_ready) =
            statics;
        Ok(Definition {
            keep: match keep.as_deref() {
                Some("last") => Keep::Last,
                Some("all") => Keep::All,
                _ => return Err(missing("keep")),
            },
            retention: retention
                .map(|text| Period::parse(&text).map_err(|e| unexpected(what, e)))
                .transpose()?,
            gone_before: match gone_before {
                Some(CqlTimestamp(millis)) => {
                    SeenAt::from_millis(millis).map_err(|e| unexpected(what, e))?
                }
                None => SeenAt::EPOCH,
            },
            generation: generation.unwrap_or_default(),
            rewritten: rewritten.unwrap_or_default(),
            buckets: buckets.filter(|buckets| *buckets > 0).ok_or_else(|| missing("buckets"))?,
            maker: maker.ok_or_else(|| missing("maker"))?,
            is_ready: is_ready.unwrap_or_default(),
        })
    }
}

/// The id of a table: its maker may have made others.
pub(crate) fn table_id(maker: Uuid, name: &TableName) -> TableId {
    let mut hasher = XxHash3_128::new();
    hasher.write(maker.as_bytes());
    hasher.write(name.as_str().as_bytes());
    TableId(hasher.finish_128())
}

/// An entry of the log, with its records. Entry 0 is the table's creation.
pub(crate) struct Entry {
    pub(crate) number: i64,
    pub(crate) portion: Option<Uuid>,
    /// Whether the entry is old: every client knows it.
    pub(crate) is_old: bool,
}

/// What the log records for an identifier or a pair, under its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogRecord {
    /// Erased up to a date.
    Erased(SeenAt),
    /// A hot key, with its number of shards.
    Hot(i32),
}

/// Columns: keep, retention, gone_before, generation, rewritten, buckets, maker, is_ready.
type Statics = (
    Option<String>,
    Option<String>,
    Option<CqlTimestamp>,
    Option<i32>,
    Option<i32>,
    Option<i32>,
    Option<Uuid>,
    Option<bool>,
);

/// Reads and changes the catalog of one keyspace.
pub(crate) struct Catalog<'c> {
    client: &'c Arc<Client>,
    keyspace: &'c str,
}

impl<'c> Catalog<'c> {
    pub(crate) fn new(client: &'c Arc<Client>) -> Catalog<'c> {
        Catalog { client, keyspace: &client.settings().keyspace }
    }

    /// The names and ids of all ready tables, by name.
    pub(crate) async fn tables(&self) -> Result<BTreeMap<TableName, TableId>> {
        let what = "the names of tables";
        let cql =
            format!("SELECT DISTINCT name, maker, is_ready FROM {}.idmatch_tables", self.keyspace);
        let read = self.client.prepare_catalog(&cql).await?;
        let rows = self.client.read(what, &read, ()).await?;
        let mut tables = BTreeMap::new();
        let rows = rows.rows::<(String, Option<Uuid>, Option<bool>)>();
        for row in rows.map_err(|e| unexpected(what, e))? {
            if let (name, Some(maker), Some(true)) = row.map_err(|e| unexpected(what, e))? {
                let name = name.parse().map_err(|e| unexpected(what, e))?;
                let id = table_id(maker, &name);
                tables.insert(name, id);
            }
        }
        Ok(tables)
    }

    /// The definition of a table; `None` if there is no such table.
    pub(crate) async fn definition(&self, name: &TableName) -> Result<Option<Definition>> {
        let what = format!("what table {name} is");
        let cql = format!(
            "SELECT DISTINCT keep, retention, gone_before, generation, rewritten, buckets, maker, \
             is_ready FROM {}.idmatch_tables WHERE name = ?",
            self.keyspace
        );
        let read = self.client.prepare_catalog(&cql).await?;
        let rows = self.client.read(&what, &read, (name.as_str(),)).await?;
        let statics = rows.maybe_first_row::<Statics>().map_err(|e| unexpected(&what, e))?;
        statics.map(|statics| Definition::read(&what, statics)).transpose()
    }

    /// The entries of a table's log after this one.
    pub(crate) async fn entries(&self, name: &TableName, after: i64) -> Result<Vec<Entry>> {
        let what = format!("the log of table {name}");
        let cql = format!(
            "SELECT entry, portion, WRITETIME(portion) FROM {}.idmatch_tables \
             WHERE name = ? AND entry > ?",
            self.keyspace
        );
        let read = self.client.prepare_catalog(&cql).await?;
        let mut entries = Vec::new();
        let values = (name.as_str().to_owned(), after);
        let mut pages = Pages::new(self.client, &what, &read, values);
        while let Some(page) = pages.next().await? {
            page.each(|(number, portion, written): (i64, Option<Uuid>, Option<i64>)| {
                let written = Duration::from_micros(written.unwrap_or(i64::MAX).cast_unsigned());
                let now = Duration::from_millis(now().millis());
                let is_old = now.checked_sub(written).is_some_and(|age| age > OLD);
                entries.push(Entry { number, portion, is_old });
                Ok(())
            })?;
        }
        Ok(entries)
    }

    /// Adds a new table. The second of two clients finds the first one's definition.
    pub(crate) async fn enter(&self, name: &TableName, new: &Definition) -> Result<()> {
        let cql = format!(
            "INSERT INTO {}.idmatch_tables \
             (name, entry, keep, retention, gone_before, generation, rewritten, buckets, maker, \
             is_ready) VALUES (?, 0, ?, ?, ?, 0, 0, ?, ?, false) IF NOT EXISTS",
            self.keyspace
        );
        let keep = match new.keep {
            Keep::Last => "last",
            Keep::All => "all",
        };
        let retention = new.retention.as_ref().map(ToString::to_string);
        let gone_before = CqlTimestamp(new.gone_before.millis_i64());
        let values = (name.as_str(), keep, retention, gone_before, new.buckets, new.maker);
        let insert = self.client.prepare_catalog(&cql).await?;
        self.client.write(&format!("table {name}"), &insert, values).await.map(drop)
    }

    /// Marks a table as ready.
    pub(crate) async fn set_ready(&self, name: &TableName) -> Result<()> {
        let cql = format!(
            "UPDATE {}.idmatch_tables SET is_ready = true WHERE name = ? IF is_ready = false",
            self.keyspace
        );
        let update = self.client.prepare_catalog(&cql).await?;
        self.client.write(&format!("table {name}"), &update, (name.as_str(),)).await.map(drop)
    }

    /// Moves a table's retention from one generation to the next. `Busy` if another client did so
    /// meanwhile.
    pub(crate) async fn set_retention(
        &self,
        name: &TableName,
        retention: Option<&Period>,
        gone_before: SeenAt,
        generation: i32,
    ) -> Result<()> {
        let next = generation + 1;
        if next > MOST_GENERATIONS {
            let text = format!("the retention of table {name} was changed too often");
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let cql = format!(
            "UPDATE {}.idmatch_tables SET retention = ?, gone_before = ?, generation = ? \
             WHERE name = ? IF generation = ?",
            self.keyspace
        );
        let text = retention.map(ToString::to_string);
        let gone_before = CqlTimestamp(gone_before.millis_i64());
        let values = (text, gone_before, next, name.as_str(), generation);
        let update = self.client.prepare_catalog(&cql).await?;
        self.client.write(&format!("the retention of table {name}"), &update, values).await?;
        match self.definition(name).await? {
            Some(now) if now.generation == next && now.retention.as_ref() == retention => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Busy,
                format!("another client changed the retention of table {name}; try again"),
            )),
        }
    }

    /// Records that all rows have been rewritten for a generation.
    pub(crate) async fn set_rewritten(&self, name: &TableName, generation: i32) -> Result<()> {
        let cql = format!(
            "UPDATE {}.idmatch_tables SET rewritten = ? WHERE name = ? IF generation = ?",
            self.keyspace
        );
        let update = self.client.prepare_catalog(&cql).await?;
        let values = (generation, name.as_str(), generation);
        self.client.write(&format!("table {name}"), &update, values).await.map(drop)
    }

    /// Writes log records and adds them to a table's log, after the entry `last`. When this
    /// returns, every client that reads the log has them.
    pub(crate) async fn publish(
        &self,
        name: &TableName,
        mut last: i64,
        records: &[(u128, LogRecord)],
    ) -> Result<()> {
        for records in records.chunks(ENTRY) {
            last = self.enter_records(name, last, records).await?;
        }
        Ok(())
    }

    async fn enter_records(
        &self,
        name: &TableName,
        mut last: i64,
        records: &[(u128, LogRecord)],
    ) -> Result<i64> {
        let what = format!("the log of table {name}");
        let portion = Uuid::new_v4();
        let insert = self.client.prepare_catalog(&self.insert_notes()).await?;
        let row = |(hash, record): &(u128, LogRecord)| {
            let (erased_at, shards) = match record {
                // A null would be a CQL tombstone.
                LogRecord::Erased(at) => (Set(CqlTimestamp(at.millis_i64())), Unset),
                LogRecord::Hot(shards) => (Unset, Set(*shards)),
            };
            (portion, hash.to_be_bytes().to_vec(), erased_at, shards)
        };
        for records in records.chunks(ROWS_AT_ONCE) {
            let rows: Vec<_> = records.iter().map(row).collect();
            self.client.write_batch(&what, &insert, &rows).await?;
        }
        let enter = self.client.prepare_catalog(&self.insert_entry()).await?;
        loop {
            let values = (name.as_str(), last.saturating_add(1), portion);
            self.client.write(&what, &enter, values).await?;
            // The log tells whether this entry or another client's came first.
            let entries = self.entries(name, last).await?;
            if let Some(entry) = entries.iter().find(|entry| entry.portion == Some(portion)) {
                return Ok(entry.number);
            }
            last = entries.iter().map(|entry| entry.number).max().unwrap_or(last);
        }
    }

    /// Prepares the statements that read a table's log while it is open: see
    /// [`crate::schema::statements`].
    pub(crate) async fn prepare(&self) -> Result<()> {
        let (records, entry, select) =
            (self.insert_notes(), self.insert_entry(), self.select_notes());
        try_join!(
            self.client.prepare_catalog(&records),
            self.client.prepare_catalog(&entry),
            self.client.prepare_catalog(&select),
        )
        .map(drop)
    }

    fn insert_notes(&self) -> String {
        let table = format!("{}.idmatch_hashes", self.keyspace);
        format!("INSERT INTO {table} (portion, hash, erased_at, parts) VALUES (?, ?, ?, ?)")
    }

    fn insert_entry(&self) -> String {
        let table = format!("{}.idmatch_tables", self.keyspace);
        format!("INSERT INTO {table} (name, entry, portion) VALUES (?, ?, ?) IF NOT EXISTS")
    }

    fn select_notes(&self) -> String {
        let table = format!("{}.idmatch_hashes", self.keyspace);
        format!("SELECT hash, erased_at, parts FROM {table} WHERE portion = ?")
    }

    /// The records of an entry.
    pub(crate) async fn records(&self, portion: Uuid) -> Result<Vec<(u128, LogRecord)>> {
        let what = "the log of a table";
        let read = self.client.prepare_catalog(&self.select_notes()).await?;
        let mut found = Vec::new();
        let mut pages = Pages::new(self.client, what, &read, (portion,));
        while let Some(page) = pages.next().await? {
            page.each(|(hash, erased_at, shards): LogRecordRow<'_>| {
                let hash = <[u8; 16]>::try_from(hash).map_err(|e| unexpected(what, e))?;
                let record = match (erased_at, shards) {
                    (Some(CqlTimestamp(at)), None) => {
                        LogRecord::Erased(SeenAt::from_millis(at).map_err(|e| unexpected(what, e))?)
                    }
                    (None, Some(shards)) => LogRecord::Hot(shards),
                    _ => return Err(unexpected(what, "a note that is no erasure and no hot key")),
                };
                found.push((u128::from_be_bytes(hash), record));
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// Columns: hash, erased_at, parts.
type LogRecordRow<'r> = (&'r [u8], Option<CqlTimestamp>, Option<i32>);
