//! The logs of erasures and hot keys: entries of `idmatch_tables`, each with log records of `idmatch_hashes`.
//! A table has a log, and so has a name whose table is gone.

use super::values::{age, uuid};
use crate::client::Client;
use crate::client::paging::Pages;
use crate::error::unexpected;
use idmatch_model::{SeenAt, TableId};
use idmatch_store::Result;
use scylla::serialize::row::SerializeRow;
use scylla::value::CqlTimestamp;
use scylla::value::MaybeUnset::{Set, Unset};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::try_join;
use uuid::Uuid;

/// Log records of one request.
const ROWS_AT_ONCE: usize = 500;
/// Entries of one request.
const ENTRIES_AT_ONCE: usize = 100;
/// Age from which an entry is old: far above a metadata TTL plus the clock difference.
const OLD: Duration = Duration::from_secs(600);
/// Log records of one entry.
const ENTRY: usize = 10_000;
/// The kinds of records in an entry.
const ERASURES: &str = "erasures";
const HOT_KEYS: &str = "hot keys";

/// An entry. Entry 0 is the table's creation.
pub(crate) struct LogEntry {
    pub(crate) number: i64,
    /// Names the records of the entry in `idmatch_hashes`.
    pub(crate) batch: Option<Uuid>,
    /// Whether the entry is old: every client knows it.
    pub(crate) is_old: bool,
    has_erasures: bool,
}

/// A record of the log about an identifier or a pair, under its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogRecord {
    /// Erased up to a date.
    Erased(SeenAt),
    /// A hot key, with its number of shards.
    Hot(i32),
}

/// Columns: entry, portion, WRITETIME(portion), kind.
type EntryRow = (i64, Option<Uuid>, Option<i64>, Option<String>);
/// Columns: hash, erased_at, parts.
type LogRecordRow<'r> = (&'r [u8], Option<CqlTimestamp>, Option<i32>);

/// Reads and writes the logs of one keyspace.
pub(crate) struct Log<'c> {
    client: &'c Arc<Client>,
    keyspace: &'c str,
}

impl<'c> Log<'c> {
    pub(crate) fn new(client: &'c Arc<Client>) -> Log<'c> {
        Log { client, keyspace: &client.settings().keyspace }
    }

    /// The entries of a log after this one.
    pub(crate) async fn entries(&self, log: TableId, after: i64) -> Result<Vec<LogEntry>> {
        let what = "the log of a table";
        let cql = format!(
            "SELECT entry, portion, WRITETIME(portion), kind FROM {}.idmatch_tables \
             WHERE id = ? AND entry > ?",
            self.keyspace
        );
        let read = self.client.prepare_catalog(&cql).await?;
        let mut entries = Vec::new();
        let mut pages = Pages::new(self.client, what, &read, (uuid(log), after));
        while let Some(page) = pages.next().await? {
            page.each(|(number, batch, written, kind): EntryRow| {
                let (is_old, has_erasures) =
                    (age(written) > OLD, kind.as_deref() == Some(ERASURES));
                entries.push(LogEntry { number, batch, is_old, has_erasures });
                Ok(())
            })?;
        }
        Ok(entries)
    }

    /// Writes records of one kind and adds them to a log, after the entry `last`. When this returns, every
    /// client that reads the log has them.
    pub(crate) async fn publish(
        &self,
        log: TableId,
        mut last: i64,
        records: &[(u128, LogRecord)],
    ) -> Result<()> {
        for records in records.chunks(ENTRY) {
            last = self.enter_records(log, last, records).await?;
        }
        Ok(())
    }

    async fn enter_records(
        &self,
        log: TableId,
        mut last: i64,
        records: &[(u128, LogRecord)],
    ) -> Result<i64> {
        let what = "the log of a table";
        let batch = Uuid::new_v4();
        let insert = self.client.prepare_catalog(&self.insert_records()).await?;
        let row = |(hash, record): &(u128, LogRecord)| {
            let (erased_at, shards) = match record {
                // A null would be a CQL tombstone.
                LogRecord::Erased(at) => (Set(CqlTimestamp(at.millis_i64())), Unset),
                LogRecord::Hot(shards) => (Unset, Set(*shards)),
            };
            (batch, hash.to_be_bytes().to_vec(), erased_at, shards)
        };
        for records in records.chunks(ROWS_AT_ONCE) {
            let rows: Vec<_> = records.iter().map(row).collect();
            self.client.write_batch(what, &insert, &rows).await?;
        }
        let kind = match records.first() {
            Some((_, LogRecord::Hot(_))) => HOT_KEYS,
            _ => ERASURES,
        };
        let enter = self.client.prepare_catalog(&self.insert_entry()).await?;
        loop {
            let values = (uuid(log), last.saturating_add(1), batch, kind);
            self.client.write(what, &enter, values).await?;
            // The log tells whether this entry or another client's came first.
            let entries = self.entries(log, last).await?;
            if let Some(entry) = entries.iter().find(|entry| entry.batch == Some(batch)) {
                return Ok(entry.number);
            }
            last = entries.iter().map(|entry| entry.number).max().unwrap_or(last);
        }
    }

    /// Adds the erasures of one log to another. Cost: a request for each hundred entries that the other log
    /// lacks.
    pub(crate) async fn merge(&self, from: TableId, into: TableId) -> Result<()> {
        let what = "the log of a table";
        let insert = self.client.prepare_catalog(&self.insert_entry()).await?;
        loop {
            let theirs = self.entries(from, -1).await?;
            let ours = self.entries(into, -1).await?;
            let known: BTreeSet<Uuid> = ours.iter().filter_map(|entry| entry.batch).collect();
            let last = ours.iter().map(|entry| entry.number).max().unwrap_or_default();
            let missing = theirs.iter().filter(|entry| entry.has_erasures);
            let missing = missing.filter_map(|entry| entry.batch);
            let missing = missing.filter(|batch| !known.contains(batch)).take(ENTRIES_AT_ONCE);
            let values: Vec<Box<dyn SerializeRow + Send + Sync>> = missing
                .zip(last.saturating_add(1)..)
                .map(|(batch, entry)| Box::new((uuid(into), entry, batch, ERASURES)) as _)
                .collect();
            if values.is_empty() {
                return Ok(());
            }
            // Where another client's entry came first, the servers take none of these, and the loop repeats.
            let statements = vec![&insert; values.len()];
            self.client.write_together(what, &statements, &values).await?;
        }
    }

    /// Prepares the statements that are used while a table is open: see [`crate::schema::statements`].
    pub(crate) async fn prepare(&self) -> Result<()> {
        let (records, entry, select) =
            (self.insert_records(), self.insert_entry(), self.select_records());
        try_join!(
            self.client.prepare_catalog(&records),
            self.client.prepare_catalog(&entry),
            self.client.prepare_catalog(&select),
        )
        .map(drop)
    }

    fn insert_records(&self) -> String {
        let table = format!("{}.idmatch_hashes", self.keyspace);
        format!("INSERT INTO {table} (portion, hash, erased_at, parts) VALUES (?, ?, ?, ?)")
    }

    fn insert_entry(&self) -> String {
        let table = format!("{}.idmatch_tables", self.keyspace);
        format!("INSERT INTO {table} (id, entry, portion, kind) VALUES (?, ?, ?, ?) IF NOT EXISTS")
    }

    fn select_records(&self) -> String {
        let table = format!("{}.idmatch_hashes", self.keyspace);
        format!("SELECT hash, erased_at, parts FROM {table} WHERE portion = ?")
    }

    /// The records of an entry.
    pub(crate) async fn records(&self, batch: Uuid) -> Result<Vec<(u128, LogRecord)>> {
        let what = "the log of a table";
        let read = self.client.prepare_catalog(&self.select_records()).await?;
        let mut found = Vec::new();
        let mut pages = Pages::new(self.client, what, &read, (batch,));
        while let Some(page) = pages.next().await? {
            page.each(|(hash, erased_at, shards): LogRecordRow<'_>| {
                let hash = <[u8; 16]>::try_from(hash).map_err(|e| unexpected(what, e))?;
                let record = match (erased_at, shards) {
                    (Some(CqlTimestamp(at)), None) => {
                        LogRecord::Erased(SeenAt::from_millis(at).map_err(|e| unexpected(what, e))?)
                    }
                    (None, Some(shards)) => LogRecord::Hot(shards),
                    _ => {
                        return Err(unexpected(what, "a record that is no erasure and no hot key"));
                    }
                };
                found.push((u128::from_be_bytes(hash), record));
                Ok(())
            })?;
        }
        Ok(found)
    }
}
