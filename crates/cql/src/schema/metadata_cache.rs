//! Caches a table's metadata: its definition, tombstones and hot keys.
//!
//! Other clients change the tombstones and the hot keys. The cache reads the catalog at most once
//! in half a metadata TTL, and never serves metadata older than one TTL. An erasure waits for one
//! TTL after it is published: every request that starts later, at any client, knows it.

use crate::client::Client;
use crate::schema::catalog::{Catalog, Definition, LogRecord};
use crate::schema::hot_keys::HotKeys;
use crate::schema::keyspace::StoreRow;
use crate::schema::tombstones::Erasures;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{SeenAt, Side, TableName, Window};
use idmatch_store::{Error, ErrorKind, Result};
use parking_lot::RwLock;
use scylla::value::CqlTimestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

/// Log entries that are read concurrently: a table with many tombstones opens in few round trips.
const CONCURRENT_LOG_READS: usize = 32;

/// A table's metadata at one moment.
#[derive(Debug, Clone)]
pub(crate) struct TableMetadata {
    pub(crate) definition: Definition,
    pub(crate) erasures: Arc<Erasures>,
    pub(crate) hot: Arc<HotKeys>,
    pub(crate) last_entry: i64,
    /// When its reading began.
    read_at: Instant,
}

impl TableMetadata {
    /// The dates that a question about a window covers, by this reading of the clock.
    pub(crate) fn visible(&self, window: Window, at: SeenAt) -> Visible {
        let window = window.within_retention(self.definition.retention.as_ref(), at);
        Visible { window, gone_before: self.definition.gone_before }
    }

    /// Whether a row is visible.
    pub(crate) fn shows(&self, visible: &Visible, by: Side, row: (&str, &str, SeenAt)) -> bool {
        visible.contains(row.2) && !self.erasures.hides(by, row.0, row.1, row.2)
    }
}

/// A window without the dates that a present or earlier retention hides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visible {
    window: Window,
    gone_before: SeenAt,
}

impl Visible {
    /// The dates at which a visible row can have been seen: first, and end.
    pub(crate) fn dates(&self) -> Dates {
        let since = self.window.since().max(Some(self.gone_before));
        let at = |date: SeenAt| CqlTimestamp(date.millis_i64());
        let (Dates(first, end), until) = (Dates::ALL, self.window.until());
        Dates(since.map_or(first, at), until.map_or(end, at))
    }

    pub(crate) fn contains(&self, seen_at: SeenAt) -> bool {
        self.window.contains(seen_at) && seen_at >= self.gone_before
    }
}

/// Dates as a request states them: inclusive first, exclusive end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dates(pub(crate) CqlTimestamp, pub(crate) CqlTimestamp);

impl Dates {
    pub(crate) const ALL: Dates = Dates(CqlTimestamp(0), CqlTimestamp(i64::MAX));

    /// Only this date.
    pub(crate) fn of(seen_at: SeenAt) -> Dates {
        let millis = seen_at.millis_i64();
        Dates(CqlTimestamp(millis), CqlTimestamp(millis + 1))
    }
}

/// Keeps the metadata up to date.
pub(crate) struct MetadataCache {
    client: Arc<Client>,
    name: TableName,
    metadata_ttl: Duration,
    metadata: RwLock<Arc<TableMetadata>>,
    /// Held while the catalog is read.
    reading: Mutex<()>,
}

impl MetadataCache {
    /// Reads a table's metadata. `TableNotFound` where there is no ready table of this name.
    pub(crate) async fn open(
        client: Arc<Client>,
        store: StoreRow,
        name: TableName,
    ) -> Result<Arc<MetadataCache>> {
        let erasures = Arc::new(Erasures::new(store.erasure_key));
        let hot = Arc::new(HotKeys::new(store.erasure_key));
        let metadata = RwLock::new(Arc::new(read(&client, &name, (erasures, hot), 0).await?));
        Ok(Arc::new(MetadataCache {
            client,
            name,
            metadata_ttl: store.metadata_ttl,
            metadata,
            reading: Mutex::default(),
        }))
    }

    pub(crate) fn name(&self) -> &TableName {
        &self.name
    }

    /// The time until a published change is known to every client.
    pub(crate) fn metadata_ttl(&self) -> Duration {
        self.metadata_ttl
    }

    /// The cached metadata, at most one TTL old.
    pub(crate) async fn current(self: &Arc<MetadataCache>) -> Result<Arc<TableMetadata>> {
        let metadata = self.metadata();
        let age = metadata.read_at.elapsed();
        if age < self.metadata_ttl / 2 {
            return Ok(metadata);
        }
        if age < self.metadata_ttl {
            if self.reading.try_lock().is_ok() {
                let metadata_cache = Arc::clone(self);
                // A failure surfaces when the TTL is over.
                tokio::spawn(async move { metadata_cache.refresh().await.map(drop) });
            }
            return Ok(metadata);
        }
        self.refresh().await
    }

    /// The metadata as of now.
    pub(crate) async fn refresh(&self) -> Result<Arc<TableMetadata>> {
        let asked = Instant::now();
        let _reading = self.reading.lock().await;
        let metadata = self.metadata();
        if metadata.read_at > asked {
            return Ok(metadata);
        }
        let so_far = (Arc::clone(&metadata.erasures), Arc::clone(&metadata.hot));
        let fresh = Arc::new(read(&self.client, &self.name, so_far, metadata.last_entry).await?);
        *self.metadata.write() = Arc::clone(&fresh);
        Ok(fresh)
    }

    /// The metadata that was read last, whatever its age.
    pub(crate) fn metadata(&self) -> Arc<TableMetadata> {
        Arc::clone(&self.metadata.read())
    }
}

/// Reads a table's definition, and the log entries since the last reading.
async fn read(
    client: &Arc<Client>,
    name: &TableName,
    (mut erasures, mut hot): (Arc<Erasures>, Arc<HotKeys>),
    last_entry: i64,
) -> Result<TableMetadata> {
    let read_at = Instant::now();
    let catalog = Catalog::new(client);
    let definition = catalog.definition(name).await?;
    let Some(definition) = definition.filter(|definition| definition.is_ready) else {
        return Err(Error::new(
            ErrorKind::TableNotFound,
            format!("there is no table {name}; create it first"),
        ));
    };
    let entries = catalog.entries(name, last_entry).await?;
    let newest = entries.iter().map(|entry| entry.number).max().unwrap_or(last_entry);
    let named: Vec<(Uuid, bool)> =
        entries.iter().filter_map(|entry| Some((entry.portion?, entry.is_old))).collect();
    let records =
        async |(portion, is_old)| Ok::<_, Error>((catalog.records(portion).await?, is_old));
    let mut portions = stream::iter(named).map(records).buffer_unordered(CONCURRENT_LOG_READS);
    while let Some((records, is_old)) = portions.try_next().await? {
        // Not before it was published.
        let since = (!is_old).then(Instant::now);
        for (hash, record) in records {
            match record {
                LogRecord::Erased(at) => Arc::make_mut(&mut erasures).add(hash, at),
                LogRecord::Hot(shards) => Arc::make_mut(&mut hot).add(hash, shards, since),
            }
        }
    }
    drop(portions);
    Ok(TableMetadata { definition, erasures, hot, last_entry: newest, read_at })
}
