//! What this process knows of a table: what it is, what was erased in it, and which keys have very many
//! rows.
//!
//! Other clients change both. Their changes are read from the catalog at most once in half a lease, and
//! nothing is answered with what is older than a lease. An erasure waits for one lease after it was
//! published: from then on every question that begins anywhere knows of it.

use crate::client::Client;
use crate::schema::catalog::{Catalog, Definition, Note};
use crate::schema::hot_keys::HotKeys;
use crate::schema::keyspace::StoreRow;
use crate::schema::tombstones::Erasures;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{SeenAt, Side, TableName, Window};
use idmatch_store::{Error, ErrorKind, Result, now};
use parking_lot::RwLock;
use scylla::value::CqlTimestamp;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use uuid::Uuid;

/// Log entries that are read concurrently: a table with many erasures opens in few round trips.
const CONCURRENT_LOG_READS: usize = 32;

/// A table as it is known at one moment.
#[derive(Debug, Clone)]
pub(crate) struct TableMetadata {
    pub(crate) definition: Definition,
    pub(crate) erasures: Arc<Erasures>,
    pub(crate) hot: Arc<HotKeys>,
    pub(crate) last_entry: i64,
    /// When the reading of it began.
    read_at: Instant,
}

impl TableMetadata {
    /// Which dates a question about a window is answered with.
    pub(crate) fn visible(&self, window: Window) -> Visible {
        let window = window.within_retention(self.definition.retention.as_ref(), now());
        Visible { window, gone_before: self.definition.gone_before }
    }

    /// Whether a row is to be seen.
    pub(crate) fn shows(&self, visible: &Visible, by: Side, row: (&str, &str, SeenAt)) -> bool {
        visible.contains(row.2) && !self.erasures.hides(by, row.0, row.1, row.2)
    }
}

/// A window without what a retention hides, now or once before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visible {
    window: Window,
    gone_before: SeenAt,
}

impl Visible {
    /// From when on, and before when a row can have been seen to be visible.
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

/// Dates that servers are asked for: from the first on, before the second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dates(pub(crate) CqlTimestamp, pub(crate) CqlTimestamp);

impl Dates {
    pub(crate) const ALL: Dates = Dates(CqlTimestamp(0), CqlTimestamp(i64::MAX));

    /// Only this one.
    pub(crate) fn of(seen_at: SeenAt) -> Dates {
        let millis = seen_at.millis_i64();
        Dates(CqlTimestamp(millis), CqlTimestamp(millis + 1))
    }
}

/// Keeps what is known up to date.
pub(crate) struct MetadataCache {
    client: Arc<Client>,
    name: TableName,
    metadata_ttl: Duration,
    metadata: RwLock<Arc<TableMetadata>>,
    /// Held while the catalog is read.
    reading: Mutex<()>,
}

impl MetadataCache {
    /// Reads what a table is. `TableNotFound` where there is none, or none that is ready.
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

    /// How long it takes until what was published is known everywhere.
    pub(crate) fn metadata_ttl(&self) -> Duration {
        self.metadata_ttl
    }

    /// What is known, at most a lease old.
    pub(crate) async fn current(self: &Arc<MetadataCache>) -> Result<Arc<TableMetadata>> {
        let metadata = self.metadata();
        let age = metadata.read_at.elapsed();
        if age < self.metadata_ttl / 2 {
            return Ok(metadata);
        }
        if age < self.metadata_ttl {
            if self.reading.try_lock().is_ok() {
                let metadata_cache = Arc::clone(self);
                // A failure shows when the lease is over.
                tokio::spawn(async move { metadata_cache.refresh().await.map(drop) });
            }
            return Ok(metadata);
        }
        self.refresh().await
    }

    /// What is known now.
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

    /// What was known last, however old that is.
    pub(crate) fn metadata(&self) -> Arc<TableMetadata> {
        Arc::clone(&self.metadata.read())
    }
}

/// Reads what a table is, and what was entered into its log since.
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
    let notes = async |(portion, is_old)| Ok::<_, Error>((catalog.notes(portion).await?, is_old));
    let mut portions = stream::iter(named).map(notes).buffer_unordered(CONCURRENT_LOG_READS);
    while let Some((notes, is_old)) = portions.try_next().await? {
        // Not before it was published.
        let since = (!is_old).then(Instant::now);
        for (hash, note) in notes {
            match note {
                Note::Erased(at) => Arc::make_mut(&mut erasures).add(hash, at),
                Note::Hot(parts) => Arc::make_mut(&mut hot).add(hash, parts, since),
            }
        }
    }
    drop(portions);
    Ok(TableMetadata { definition, erasures, hot, last_entry: newest, read_at })
}
