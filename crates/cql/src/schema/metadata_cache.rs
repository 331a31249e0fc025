//! A table's metadata: its definition, tombstones and hot keys. Other clients change all of them. Decides which
//! rows a read shows (`TableMetadata::shows`).
//!
//! An erasure waits for one metadata TTL after it is published: every request that starts later, at any
//! client, knows it.

use crate::client::Client;
use crate::schema::cached::{Cached, Origin};
use crate::schema::catalog::KeyspaceCatalog;
use crate::schema::definition::Definition;
use crate::schema::hot_keys::HotKeys;
use crate::schema::log::{Log, LogRecord};
use crate::schema::tombstones::TombstoneMap;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{ErasureKey, SeenAt, Side, TableId, Window};
use idmatch_store::{Error, ErrorKind, Result};
use scylla::value::CqlTimestamp;
use std::sync::Arc;
use tokio::time::Instant;
use uuid::Uuid;

/// Log entries that are read concurrently: a table with many tombstones opens in few round trips.
const CONCURRENT_LOG_READS: usize = 32;

/// A table's metadata at one moment.
#[derive(Debug, Clone)]
pub(crate) struct TableMetadata {
    pub(crate) definition: Definition,
    pub(crate) erasures: Arc<TombstoneMap>,
    pub(crate) hot: Arc<HotKeys>,
    pub(crate) last_entry: i64,
}

impl TableMetadata {
    /// The dates that a question about a window covers, by this reading of the clock.
    pub(crate) fn visible_range(&self, window: Window, at: SeenAt) -> VisibleRange {
        let window = window.within_retention(self.definition.retention.as_ref(), at);
        VisibleRange { window, hidden_before: self.definition.hidden_before }
    }

    /// The dates that the retention shows, including dates that are hidden until all rows are rewritten.
    pub(crate) fn retained(&self, at: SeenAt) -> VisibleRange {
        VisibleRange { hidden_before: None, ..self.visible_range(Window::ALL, at) }
    }

    /// Whether a row is visible.
    pub(crate) fn shows(
        &self,
        visible: &VisibleRange,
        by: Side,
        row: (&str, &str, SeenAt),
    ) -> bool {
        visible.contains(row.2) && !self.erasures.hides(by, row.0, row.1, row.2)
    }
}

/// A window without the dates that the retention hides, and without those that stay hidden until all rows are
/// rewritten.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VisibleRange {
    window: Window,
    hidden_before: Option<SeenAt>,
}

impl VisibleRange {
    /// The dates at which a visible row can have been seen: first, and end.
    pub(crate) fn dates(&self) -> Dates {
        let since = self.window.since().max(self.hidden_before);
        let at = |date: SeenAt| CqlTimestamp(date.millis_i64());
        let (Dates(first, end), until) = (Dates::ALL, self.window.until());
        Dates(since.map_or(first, at), until.map_or(end, at))
    }

    pub(crate) fn contains(&self, seen_at: SeenAt) -> bool {
        self.window.contains(seen_at) && self.hidden_before.is_none_or(|from| seen_at >= from)
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

/// The cached metadata of a table.
pub(crate) type MetadataCache = Cached<Metadata>;

/// Where the metadata of a table is read.
pub(crate) struct Metadata {
    client: Arc<Client>,
    pub(crate) id: TableId,
    erasure_key: ErasureKey,
}

impl Metadata {
    pub(crate) fn new(client: Arc<Client>, id: TableId, erasure_key: ErasureKey) -> Metadata {
        Metadata { client, id, erasure_key }
    }
}

impl Origin for Metadata {
    type Value = TableMetadata;

    /// Reads the definition, and the log entries since the last reading.
    ///
    /// # Errors
    /// `TableNotFound` for a table that is not there, or was dropped.
    async fn read(&self, before: Option<&TableMetadata>) -> Result<TableMetadata> {
        let definition = KeyspaceCatalog::new(&self.client).definition(self.id).await?;
        let definition = match definition {
            Some(definition) if !definition.is_dropped => definition,
            Some(dropped) => {
                let text = format!("table {} was dropped", dropped.name);
                return Err(Error::new(ErrorKind::TableNotFound, text));
            }
            None => {
                let text = format!("there is no table with the id {}", self.id);
                return Err(Error::new(ErrorKind::TableNotFound, text));
            }
        };
        let (mut erasures, mut hot, last_entry) = match before {
            Some(before) => {
                (Arc::clone(&before.erasures), Arc::clone(&before.hot), before.last_entry)
            }
            None => {
                let (erasures, hot) =
                    (TombstoneMap::new(self.erasure_key), HotKeys::new(self.erasure_key));
                (Arc::new(erasures), Arc::new(hot), 0)
            }
        };
        let log = Log::new(&self.client);
        let entries = log.entries(self.id, last_entry).await?;
        let newest = entries.iter().map(|entry| entry.number).max().unwrap_or(last_entry);
        let named: Vec<(Uuid, bool)> =
            entries.iter().filter_map(|entry| Some((entry.batch?, entry.is_old))).collect();
        let records = async |(batch, is_old)| Ok::<_, Error>((log.records(batch).await?, is_old));
        let mut batches = stream::iter(named).map(records).buffer_unordered(CONCURRENT_LOG_READS);
        while let Some((records, is_old)) = batches.try_next().await? {
            // This moment is not before the publication of the entry.
            let since = (!is_old).then(Instant::now);
            for (hash, record) in records {
                match record {
                    LogRecord::Erased(at) => Arc::make_mut(&mut erasures).add(hash, at),
                    LogRecord::Hot(shards) => Arc::make_mut(&mut hot).add(hash, shards, since),
                }
            }
        }
        drop(batches);
        Ok(TableMetadata { definition, erasures, hot, last_entry: newest })
    }
}
