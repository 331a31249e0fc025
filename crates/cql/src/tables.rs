//! The tables of a keyspace: opens each once for all handles of a store, and makes, renames and drops them.

use crate::client::{Client, Use};
use crate::context::TableContext;
use crate::maintain::dropped::remove_dropped;
use crate::schema::bucket::{EXPECTED_ROWS, buckets_for};
use crate::schema::cached::{Cached, Origin};
use crate::schema::catalog::KeyspaceCatalog;
use crate::schema::definition::Definition;
use crate::schema::keyspace::{self, StoreRow};
use crate::schema::log::Log;
use crate::schema::metadata_cache::{Metadata, MetadataCache};
use crate::schema::names::{Change, Holder, Names, not_found};
use crate::schema::values::table_id;
use crate::settings::Settings;
use crate::write::hot_keys::publish_detected;
use idmatch_model::{ErasureKey, TableId, TableName, TableOptions};
use idmatch_store::locks::{Mutex, RwLock};
use idmatch_store::{BackgroundError, Call, Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The tables of a keyspace, and the session that all use.
pub(crate) struct Tables {
    pub(crate) client: Arc<Client>,
    /// `None` while nothing is in the keyspace.
    store: RwLock<Option<KeyspaceMetadata>>,
    open: Mutex<BTreeMap<TableId, Arc<TableContext>>>,
}

/// The settings that the keyspace was made with, and the cached names of its tables.
#[derive(Clone)]
struct KeyspaceMetadata {
    row: StoreRow,
    names: Arc<Cached<NamesOrigin>>,
}

struct NamesOrigin(Arc<Client>);

impl Origin for NamesOrigin {
    type Value = Names;

    async fn read(&self, _: Option<&Names>) -> Result<Names> {
        Names::read(&self.0).await
    }
}

impl Tables {
    /// Connects, and finds the store in its keyspace.
    pub(crate) fn connect(settings: Settings) -> Result<Tables> {
        let client = Arc::new(Client::connect(settings)?);
        let tables = Tables { client, store: RwLock::default(), open: Mutex::default() };
        tables.client.wait(tables.find())?;
        Ok(tables)
    }

    /// The store, if it exists by now.
    async fn find(&self) -> Result<Option<KeyspaceMetadata>> {
        let found = self.store.read().clone();
        if found.is_some() {
            return Ok(found);
        }
        match keyspace::find(&self.client).await? {
            Some(row) => Ok(Some(self.set_found(row).await?)),
            None => Ok(None),
        }
    }

    async fn set_found(&self, row: StoreRow) -> Result<KeyspaceMetadata> {
        let names = NamesOrigin(Arc::clone(&self.client));
        let failures = self.client.metrics.refresh_failures.clone();
        let found =
            KeyspaceMetadata { row, names: Cached::open(names, row.metadata_ttl, failures).await? };
        Ok(self.store.write().get_or_insert(found).clone())
    }

    /// Finds the store. Where there is none yet, makes it with this erasure key or a random one.
    pub(crate) async fn find_or_make(&self, key: Option<ErasureKey>) -> Result<StoreRow> {
        Ok(self.found_or_made(key).await?.row)
    }

    async fn found_or_made(&self, key: Option<ErasureKey>) -> Result<KeyspaceMetadata> {
        match self.find().await? {
            Some(found) => Ok(found),
            None => self.set_found(keyspace::make(&self.client, key).await?).await,
        }
    }

    /// The table that has this name. Cost: nothing while the names are fresh.
    pub(crate) async fn resolve(&self, name: &TableName) -> Result<TableId> {
        let Some(found) = self.find().await? else { return Err(self.no_table(name)) };
        match found.names.current().await?.table(name) {
            Ok(id) => Ok(id),
            // Another client may have made it just now.
            Err(_) => found.names.refresh().await?.table(name),
        }
    }

    fn no_table(&self, name: &TableName) -> Error {
        let shown = self.client.settings().shown();
        let text = format!("{shown} has no table {name}; it has none yet");
        Error::new(ErrorKind::TableNotFound, text)
    }

    /// The table with this id. Cost: nothing if it is open.
    pub(crate) fn context(&self, id: TableId, call: &Call) -> Result<Arc<TableContext>> {
        let open = self.open.lock().get(&id).cloned();
        open.map_or_else(|| self.read(call, self.open(id)), Ok)
    }

    async fn open(&self, id: TableId) -> Result<Arc<TableContext>> {
        let Some(KeyspaceMetadata { row, .. }) = self.find().await? else {
            let text = format!("{} has no table yet", self.client.settings().shown());
            return Err(Error::new(ErrorKind::TableNotFound, text));
        };
        let metadata = Metadata::new(Arc::clone(&self.client), id, row.erasure_key);
        let failures = self.client.metrics.refresh_failures.clone();
        let cache = MetadataCache::open(metadata, row.metadata_ttl, failures).await?;
        let (context, detected) =
            TableContext::open(Arc::clone(&self.client), cache, row.seed).await?;
        let context = Arc::new(context);
        let mut open = self.open.lock();
        if let Some(earlier) = open.get(&id) {
            return Ok(Arc::clone(earlier));
        }
        tokio::spawn(publish_detected(Arc::downgrade(&context), detected));
        open.insert(id, Arc::clone(&context));
        Ok(context)
    }

    /// Why metadata of the store or of an open table are not refreshed: the last failure.
    pub(crate) fn failing(&self) -> Option<BackgroundError> {
        let names = self.store.read().as_ref().and_then(|found| found.names.failing());
        let open = self.open.lock();
        let of_tables = open.values().filter_map(|context| context.metadata_cache.failing());
        names.into_iter().chain(of_tables).max_by_key(|failing| failing.last)
    }

    /// The names of all tables, ascending.
    pub(crate) async fn all(&self) -> Result<Vec<TableName>> {
        let Some(found) = self.find().await? else { return Ok(Vec::new()) };
        let names = found.names.refresh().await?;
        Ok(names.tables().map(|(name, _)| name.clone()).collect())
    }

    /// Makes a table, or finds the table of this name. Its CQL tables exist before its name does.
    pub(crate) async fn make(
        &self,
        name: &TableName,
        options: &TableOptions,
        expected_rows: Option<u64>,
    ) -> Result<TableId> {
        options.check()?;
        let found = self.found_or_made(None).await?;
        let catalog = KeyspaceCatalog::new(&self.client);
        let mut made = None;
        loop {
            let names = Names::settled(&self.client).await?;
            let former = match names.holder(name) {
                Some(Holder::Table(id)) => {
                    if let Some(made) = made {
                        catalog.set_dropped(made).await?;
                    }
                    found.names.refresh().await?;
                    return self.found_with(name, id, options).await;
                }
                Some(Holder::Former(log)) => Some(log),
                None => None,
            };
            let id = match made {
                Some(id) => id,
                None => {
                    let buckets = buckets_for(expected_rows.unwrap_or(EXPECTED_ROWS));
                    let (id, new) = (new_id(), Definition::new(name, options, buckets));
                    catalog.enter(id, &new).await?;
                    keyspace::create(&self.client, id, options.keep).await?;
                    *made.insert(id)
                }
            };
            if let Some(log) = former {
                Log::new(&self.client).merge(log, id).await?;
            }
            let holders = vec![(name.clone(), Holder::Table(id))];
            if names.change(&self.client, Change { holders, ..Change::default() }).await? {
                found.names.refresh().await?;
                return Ok(id);
            }
        }
    }

    async fn found_with(
        &self,
        name: &TableName,
        id: TableId,
        options: &TableOptions,
    ) -> Result<TableId> {
        let definition = KeyspaceCatalog::new(&self.client).definition(id).await?;
        let there = definition.ok_or_else(|| not_found(name))?.options();
        match there == *options {
            true => Ok(id),
            false => Err(Error::other_options(name, &there, options)),
        }
    }

    /// Gives a table another name. Cost: two metadata TTLs.
    pub(crate) async fn rename(&self, name: &TableName, to: &TableName) -> Result<()> {
        self.change_names(async |names, metadata_ttl| {
            let (id, left) = (names.table(name)?, new_id());
            // The former name gets a log of its own: later erasures of the table do not concern that name.
            let mut merges = vec![(id, left)];
            match names.holder(to) {
                Some(Holder::Table(_)) => return Err(Error::name_taken(to)),
                Some(Holder::Former(log)) => merges.push((log, id)),
                None => {}
            }
            let holders =
                vec![(name.clone(), Holder::Former(left)), (to.clone(), Holder::Table(id))];
            let change = Change { holders, ..Change::default() };
            let changed =
                names.merge_and_change(&self.client, &merges, (change, metadata_ttl)).await?;
            Ok(changed.then(|| vec![(id, to)]))
        })
        .await
    }

    /// Exchanges the names of two tables. Cost: two metadata TTLs.
    pub(crate) async fn swap(&self, one: &TableName, other: &TableName) -> Result<()> {
        self.change_names(async |names, metadata_ttl| {
            let (a, b) = (names.table(one)?, names.table(other)?);
            if a == b {
                return Ok(Some(Vec::new()));
            }
            let holders = vec![(one.clone(), Holder::Table(b)), (other.clone(), Holder::Table(a))];
            let (merges, change) = ([(a, b), (b, a)], Change { holders, ..Change::default() });
            let changed =
                names.merge_and_change(&self.client, &merges, (change, metadata_ttl)).await?;
            Ok(changed.then(|| vec![(a, other), (b, one)]))
        })
        .await
    }

    /// Drops a table. Its erasures stay for the next table of its name. Cost: a metadata TTL, and the removal
    /// of tables that were dropped a day before.
    pub(crate) async fn drop_table(&self, name: &TableName) -> Result<()> {
        self.change_names(async |names, _| {
            let id = names.table(name)?;
            let holders = vec![(name.clone(), Holder::Former(id))];
            let change = Change { holders, ..Change::default() };
            if !names.change(&self.client, change).await? {
                return Ok(None);
            }
            KeyspaceCatalog::new(&self.client).set_dropped(id).await?;
            self.open.lock().remove(&id);
            Ok(Some(Vec::new()))
        })
        .await?;
        remove_dropped(&self.client).await
    }

    /// Repeats a change of names until no other change comes first. Notes the new names of tables. Returns
    /// when every client knows the change.
    async fn change_names<'n>(
        &self,
        change: impl AsyncFn(&Names, Duration) -> Result<Option<Vec<(TableId, &'n TableName)>>>,
    ) -> Result<()> {
        let Some(found) = self.find().await? else {
            return change(&Names::default(), Duration::ZERO).await.map(drop);
        };
        let metadata_ttl = found.row.metadata_ttl;
        loop {
            let names = Names::settled(&self.client).await?;
            let Some(renamed) = change(&names, metadata_ttl).await? else { continue };
            for (id, name) in renamed {
                KeyspaceCatalog::new(&self.client).set_name(id, name).await?;
            }
            found.names.refresh().await?;
            tokio::time::sleep(metadata_ttl).await;
            return Ok(());
        }
    }

    /// Reads the names, and the metadata of all open tables, anew.
    pub(crate) async fn refresh(&self) -> Result<()> {
        if let Some(found) = self.find().await? {
            found.names.refresh().await?;
        }
        let contexts: Vec<_> = self.open.lock().values().cloned().collect();
        for context in contexts {
            match context.metadata_cache.refresh().await {
                // The table was dropped.
                Err(e) if e.kind() == ErrorKind::TableNotFound => {
                    self.open.lock().remove(&context.id());
                }
                refreshed => refreshed.map(drop)?,
            }
        }
        Ok(())
    }

    /// Waits for a change, and gives it up when its call ends.
    pub(crate) fn change<T>(
        &self,
        call: &Call,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        call.check()?;
        self.client.wait_unless(call, Use::Write, work)
    }

    /// Waits for a read, and gives it up when its call ends.
    pub(crate) fn read<T>(&self, call: &Call, work: impl Future<Output = Result<T>>) -> Result<T> {
        call.check()?;
        self.client.wait_unless(call, Use::Read, work)
    }
}

fn new_id() -> TableId {
    table_id(Uuid::new_v4())
}
