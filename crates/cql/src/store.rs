//! The store of a keyspace. Only delegates: to `schema` for tables, to `client` for the session.

use crate::client::Client;
use crate::context::TableContext;
use crate::schema::bucket::buckets_for;
use crate::schema::catalog::{Catalog, Definition};
use crate::schema::keyspace::{self, StoreRow};
use crate::schema::metadata_cache::MetadataCache;
use crate::settings::Settings;
use crate::table::CqlTable;
use crate::write::hot_keys::publish_detected;
use idmatch_model::{ErasureKey, TableName, TableOptions};
use idmatch_store::{Error, ErrorKind, Result, Store, Table};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// A table that another client makes is waited for so long, and then made by this one.
const MAKING: Duration = Duration::from_secs(60);
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// A store on ScyllaDB or Cassandra. Cheap to clone; all share one session.
#[derive(Clone)]
pub struct CqlStore(Arc<Inner>);

struct Inner {
    client: Arc<Client>,
    /// What the keyspace was made with; empty while nothing is there.
    store: RwLock<Option<StoreRow>>,
    /// Names this client among those that make a table at once.
    maker: Uuid,
    tables: Mutex<BTreeMap<TableName, Arc<CqlTable>>>,
}

impl CqlStore {
    /// Connects, and finds the store in its keyspace. One that is not there yet is made with its first
    /// table.
    ///
    /// # Errors
    /// `Unavailable` where no server answers, `NotAStore` where the keyspace is missing and none is to be
    /// made, `UnsupportedFormat` where it has tables of another version, `InvalidArgument` where clocks differ.
    pub fn open(settings: Settings) -> Result<CqlStore> {
        let client = Arc::new(Client::connect(settings)?);
        let store = RwLock::new(client.wait(keyspace::find(&client))?);
        let (maker, tables) = (Uuid::new_v4(), Mutex::default());
        Ok(CqlStore(Arc::new(Inner { client, store, maker, tables })))
    }

    /// How it is set.
    pub fn settings(&self) -> &Settings {
        self.0.client.settings()
    }

    fn found(&self) -> Option<StoreRow> {
        *self.0.store.read()
    }

    /// The store, if it is there by now.
    async fn find(&self) -> Result<Option<StoreRow>> {
        if let Some(found) = self.found() {
            return Ok(Some(found));
        }
        let found = keyspace::find(&self.0.client).await?;
        *self.0.store.write() = found;
        Ok(found)
    }

    async fn open_table(&self, name: &TableName) -> Result<Arc<CqlTable>> {
        let metadata = self.0.tables.lock().get(name).cloned();
        if let Some(table) = metadata {
            return Ok(table);
        }
        let client = Arc::clone(&self.0.client);
        let Some(store) = self.find().await? else {
            return Err(Error::new(
                ErrorKind::TableNotFound,
                format!("{} has no table {name}; it has none yet", self.settings().shown()),
            ));
        };
        let metadata_cache = MetadataCache::open(Arc::clone(&client), store, name.clone()).await?;
        let keep = metadata_cache.current().await?.definition.keep;
        let table = {
            let (context, detected) = TableContext::open(client, metadata_cache, keep).await?;
            let context = Arc::new(context);
            tokio::spawn(publish_detected(Arc::downgrade(&context), detected));
            Arc::new(CqlTable::new(context))
        };
        let mut tables = self.0.tables.lock();
        Ok(Arc::clone(tables.entry(name.clone()).or_insert(table)))
    }

    /// The store; one that is not there yet is made, with this key of erasures or a random one.
    async fn find_or_make(&self, key: Option<ErasureKey>) -> Result<StoreRow> {
        if let Some(found) = self.find().await? {
            return Ok(found);
        }
        let made = keyspace::make(&self.0.client, key).await?;
        *self.0.store.write() = Some(made);
        Ok(made)
    }

    async fn make(&self, name: &TableName, options: &TableOptions) -> Result<()> {
        self.find_or_make(None).await?;
        let catalog = Catalog::new(&self.0.client);
        let buckets = buckets_for(self.settings().expected_rows);
        let new = Definition::new(options, buckets, self.0.maker);
        let until = Instant::now() + MAKING;
        let mut there = catalog.definition(name).await?;
        if there.is_none() {
            catalog.enter(name, &new).await?;
            there = catalog.definition(name).await?;
        }
        while let Some(definition) = there {
            let found = definition.options();
            if found != *options {
                return Err(Error::other_options(name, &found, options));
            }
            if definition.is_ready {
                return Ok(());
            }
            // Two clients that make one table at once could each make their own.
            if definition.maker == new.maker || Instant::now() > until {
                keyspace::create(&self.0.client, name, definition.keep).await?;
                catalog.set_ready(name).await?;
            } else {
                tokio::time::sleep(ASK_AGAIN).await;
            }
            there = catalog.definition(name).await?;
        }
        Err(Error::new(ErrorKind::Busy, format!("table {name} was removed while it was made")))
    }
}

impl Store for CqlStore {
    fn create_table(&self, name: &TableName, options: &TableOptions) -> Result<Arc<dyn Table>> {
        self.0.client.wait(async {
            self.make(name, options).await?;
            Ok(self.open_table(name).await? as Arc<dyn Table>)
        })
    }

    fn table(&self, name: &TableName) -> Result<Arc<dyn Table>> {
        self.0.client.wait(async { Ok(self.open_table(name).await? as Arc<dyn Table>) })
    }

    fn tables(&self) -> Result<Vec<TableName>> {
        self.0.client.wait(async {
            match self.find().await? {
                Some(_) => Catalog::new(&self.0.client).names().await,
                None => Ok(Vec::new()),
            }
        })
    }

    /// Servers have one state for all; what is known of tables and erasures is read anew.
    fn refresh(&self) -> Result<()> {
        let tables: Vec<Arc<CqlTable>> = {
            let tables = self.0.tables.lock();
            tables.values().cloned().collect()
        };
        self.0.client.wait(async {
            for table in tables {
                table.context.metadata_cache.refresh().await?;
            }
            Ok(())
        })
    }

    /// Clients keep the key of a store for as long as they are connected, so that only one that is made
    /// here and now takes another's.
    fn adopt_erasure_key(&self, key: ErasureKey) -> Result<ErasureKey> {
        Ok(self.0.client.wait(self.find_or_make(Some(key)))?.erasure_key)
    }

    fn backup(&self, destination: &Path) -> Result<()> {
        Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "cannot back up to {}: a store on servers is backed up by their snapshots (nodetool \
                 snapshot, or the operator's own tool)",
                destination.display()
            ),
        ))
    }
}
