//! The context of one table, which every request uses: client, statements, metadata.
//!
//! Decodes pages of rows, and takes reports of hot keys from reads. Must not know how rows are
//! merged, written or matched.

use crate::client::paging::{Page, Pages};
use crate::client::{Client, Prepared};
use crate::error::unexpected;
use crate::schema::bucket::{BucketRows, Buckets};
use crate::schema::hot_keys::shards_for;
use crate::schema::log::{Log, LogRecord};
use crate::schema::metadata_cache::{Dates, MetadataCache, TableMetadata};
use crate::schema::statements::{DirectionStatements, HotKeyStatements, Loads, Statements};
use crate::schema::values::uuid;
use idmatch_model::{Keep, SeenAt, Side, TableId, TableName};
use idmatch_store::Result;
use scylla::serialize::row::SerializeRow;
use scylla::value::CqlTimestamp;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::try_join;
use uuid::Uuid;

/// A row of a direction: key, value, date.
pub(crate) type DirectionRow<'r> = (&'r str, &'r str, SeenAt);

/// A hot key that a read met, with its row count.
pub(crate) type Detected = (Side, String, u64);

/// Reports of hot keys that may wait: each takes a metadata TTL to publish.
const DETECTED_KEYS: usize = 16;

/// A table's client, statements and metadata.
pub(crate) struct TableContext {
    pub(crate) client: Arc<Client>,
    pub(crate) metadata_cache: Arc<MetadataCache>,
    pub(crate) buckets: Buckets,
    /// Hot keys that reads met.
    detected: Sender<Detected>,
    /// Held while hot keys are published.
    pub(crate) publishing: Mutex<()>,
    statements: Statements,
    /// By id and by partner_id.
    bucket_rows: [BucketRows; 2],
}

impl TableContext {
    /// Prepares the statements. Also returns the receiver of the hot keys that reads report.
    pub(crate) async fn open(
        client: Arc<Client>,
        metadata_cache: Arc<MetadataCache>,
        seed: u64,
    ) -> Result<(TableContext, Receiver<Detected>)> {
        let definition = &metadata_cache.held().definition;
        let buckets = Buckets::new(definition.buckets, seed);
        let log = Log::new(&client);
        let prepared = Statements::prepare(&client, metadata_cache.origin().id, definition.keep);
        let (statements, ()) = try_join!(prepared, log.prepare())?;
        let (publishing, bucket_rows) = (Mutex::default(), Default::default());
        let (detected, received) = channel(DETECTED_KEYS);
        Ok((
            TableContext {
                client,
                metadata_cache,
                buckets,
                detected,
                publishing,
                statements,
                bucket_rows,
            },
            received,
        ))
    }

    /// The average rows of the buckets of a direction.
    pub(crate) fn bucket_rows(&self, by: Side) -> &BucketRows {
        let [by_id, by_partner_id] = &self.bucket_rows;
        match by {
            Side::Id => by_id,
            Side::PartnerId => by_partner_id,
        }
    }

    /// Reports a key with this many rows. The report is dropped while many reports wait, or while one is
    /// being published: reads meet a hot key again soon.
    pub(crate) fn report_rows(&self, by: Side, key: &str, rows: u64) {
        let Some(shards) = shards_for(rows, self.client.settings().hot_key_rows) else { return };
        let is_known =
            self.metadata_cache.held().hot.shards(by, key).is_some_and(|now| now >= shards);
        if !is_known && self.publishing.try_lock().is_ok() {
            self.detected.try_send((by, key.to_owned(), rows)).ok();
        }
    }

    pub(crate) fn id(&self) -> TableId {
        self.metadata_cache.origin().id
    }

    /// The id as a UUID, as servers store it.
    pub(crate) fn uuid(&self) -> Uuid {
        uuid(self.id())
    }

    /// The name that the table had when its metadata was read.
    pub(crate) fn name(&self) -> TableName {
        self.metadata_cache.held().definition.name.clone()
    }

    pub(crate) fn by(&self, by: Side) -> &DirectionStatements {
        self.statements.by(by)
    }

    /// The statements for hot keys.
    pub(crate) fn hot(&self) -> &HotKeyStatements {
        &self.statements.hot
    }

    /// The statements for the written chunks of loads.
    pub(crate) fn loads(&self) -> &Loads {
        &self.statements.loads
    }

    /// The table, as an error names it.
    pub(crate) fn what(&self) -> String {
        format!("table {}", self.name())
    }

    /// Adds records to the table's log, after the entry that was known then; returns when every
    /// client knows them.
    pub(crate) async fn publish(
        &self,
        metadata: &TableMetadata,
        records: &[(u128, LogRecord)],
    ) -> Result<()> {
        Log::new(&self.client).publish(self.id(), metadata.last_entry, records).await?;
        self.wait_until_known().await
    }

    /// Returns when every client knows the records that are published by now.
    pub(crate) async fn wait_until_known(&self) -> Result<()> {
        self.metadata_cache.refresh().await?;
        tokio::time::sleep(self.metadata_cache.ttl()).await;
        Ok(())
    }

    /// The rows of a key in its bucket. With keep="all" they come newest first, within these dates. With
    /// keep="last" all rows of the key come, in the order of values.
    pub(crate) fn key_pages(
        &self,
        metadata: &TableMetadata,
        (by, key): (Side, &str),
        Dates(since, until): Dates,
    ) -> Pages {
        let statement = &self.by(by).key;
        let (bucket, key) = (self.buckets.of(key), key.to_owned());
        match metadata.definition.keep {
            Keep::Last => self.pages(statement, (bucket, key)),
            Keep::All => self.pages(statement, (bucket, key, since, until)),
        }
    }

    /// The rows of several keys of one bucket, key by key.
    pub(crate) fn keys_pages(
        &self,
        metadata: &TableMetadata,
        (by, bucket, keys): (Side, i32, Vec<String>),
        Dates(since, until): Dates,
    ) -> Pages {
        let statement = &self.by(by).keys;
        match metadata.definition.keep {
            Keep::Last => self.pages(statement, (bucket, keys)),
            Keep::All => self.pages(statement, (bucket, keys, since, until)),
        }
    }

    /// The rows of a statement.
    pub(crate) fn pages(
        &self,
        statement: &Prepared,
        values: impl SerializeRow + Send + Sync + 'static,
    ) -> Pages {
        Pages::new(&self.client, &self.what(), statement, values)
    }

    /// Decodes the rows of a page of a direction.
    pub(crate) fn each_row<'p>(
        &self,
        page: &'p Page,
        mut take: impl FnMut(DirectionRow<'p>) -> Result<()>,
    ) -> Result<()> {
        page.each(|(key, value, CqlTimestamp(date)): (&str, &str, CqlTimestamp)| {
            let date = SeenAt::from_millis(date).map_err(|e| unexpected(&self.what(), e))?;
            take((key, value, date))
        })
    }
}
