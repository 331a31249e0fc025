//! The tables of a keyspace: makes them, and opens each once for all handles of a store.

use crate::client::{Client, Use};
use crate::context::TableContext;
use crate::schema::bucket::buckets_for;
use crate::schema::catalog::{Catalog, Definition, table_id};
use crate::schema::keyspace::{self, StoreRow};
use crate::schema::metadata_cache::MetadataCache;
use crate::settings::Settings;
use crate::write::hot_keys::publish_detected;
use idmatch_model::{ErasureKey, TableId, TableName, TableOptions};
use idmatch_store::{Call, Error, ErrorKind, Result};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// A table that another client makes is waited for so long, and then made by this one.
const MAKING: Duration = Duration::from_secs(60);
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The tables of a keyspace, and the session that all use.
pub(crate) struct Tables {
    pub(crate) client: Arc<Client>,
    /// What the keyspace was made with; empty while nothing is there.
    store: RwLock<Option<StoreRow>>,
    /// Names this client among those that make a table at once.
    maker: Uuid,
    open: Mutex<OpenTables>,
}

/// The tables that are open.
#[derive(Default)]
struct OpenTables {
    ids: BTreeMap<TableName, TableId>,
    contexts: BTreeMap<TableId, Arc<TableContext>>,
}

impl Tables {
    /// Connects, and finds the store in its keyspace.
    pub(crate) fn connect(settings: Settings) -> Result<Tables> {
        let client = Arc::new(Client::connect(settings)?);
        let store = RwLock::new(client.wait(keyspace::find(&client))?);
        let (maker, open) = (Uuid::new_v4(), Mutex::default());
        Ok(Tables { client, store, maker, open })
    }

    fn found(&self) -> Option<StoreRow> {
        *self.store.read()
    }

    /// The store, if it is there by now.
    async fn find(&self) -> Result<Option<StoreRow>> {
        if let Some(found) = self.found() {
            return Ok(Some(found));
        }
        let found = keyspace::find(&self.client).await?;
        *self.store.write() = found;
        Ok(found)
    }

    /// The table of this name. Cost: nothing if it is open.
    pub(crate) fn open(&self, name: &TableName, call: &Call) -> Result<TableId> {
        let open = self.open.lock().ids.get(name).copied();
        match open {
            Some(id) => Ok(id),
            None => self.read(call, self.open_named(name)),
        }
    }

    /// The table with this id. Cost: nothing if it is open, else a request more than by its name.
    pub(crate) fn context(&self, id: TableId, call: &Call) -> Result<Arc<TableContext>> {
        if let Some(context) = self.context_of(id) {
            return Ok(context);
        }
        self.read(call, async {
            let name = self.all().await?.into_iter().find(|(_, other)| *other == id);
            if let Some((name, _)) = name {
                self.open_named(&name).await?;
            }
            self.context_of(id).ok_or_else(|| {
                let text =
                    format!("{} has no table with the id {id}", self.client.settings().shown());
                Error::new(ErrorKind::TableNotFound, text)
            })
        })
    }

    fn context_of(&self, id: TableId) -> Option<Arc<TableContext>> {
        self.open.lock().contexts.get(&id).cloned()
    }

    /// The names and ids of all tables.
    pub(crate) async fn all(&self) -> Result<BTreeMap<TableName, TableId>> {
        match self.find().await? {
            Some(_) => Catalog::new(&self.client).tables().await,
            None => Ok(BTreeMap::new()),
        }
    }

    async fn open_named(&self, name: &TableName) -> Result<TableId> {
        let client = Arc::clone(&self.client);
        let Some(store) = self.find().await? else {
            return Err(Error::new(
                ErrorKind::TableNotFound,
                format!("{} has no table {name}; it has none yet", self.client.settings().shown()),
            ));
        };
        let metadata_cache = MetadataCache::open(Arc::clone(&client), store, name.clone()).await?;
        let definition = metadata_cache.current().await?.definition.clone();
        let (context, detected) =
            TableContext::open(client, metadata_cache, definition.keep).await?;
        let (id, context) = (table_id(definition.maker, name), Arc::new(context));
        let mut open = self.open.lock();
        if !open.ids.contains_key(name) {
            tokio::spawn(publish_detected(Arc::downgrade(&context), detected));
            open.ids.insert(name.clone(), id);
            open.contexts.insert(id, context);
        }
        Ok(id)
    }

    /// The store; one that is not there yet is made, with this key of erasures or a random one.
    pub(crate) async fn find_or_make(&self, key: Option<ErasureKey>) -> Result<StoreRow> {
        if let Some(found) = self.find().await? {
            return Ok(found);
        }
        let made = keyspace::make(&self.client, key).await?;
        *self.store.write() = Some(made);
        Ok(made)
    }

    pub(crate) async fn make(&self, name: &TableName, options: &TableOptions) -> Result<()> {
        options.check()?;
        self.find_or_make(None).await?;
        let catalog = Catalog::new(&self.client);
        let buckets = buckets_for(self.client.settings().expected_rows);
        let new = Definition::new(options, buckets, self.maker);
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
                keyspace::create(&self.client, name, definition.keep).await?;
                catalog.set_ready(name).await?;
            } else {
                tokio::time::sleep(ASK_AGAIN).await;
            }
            there = catalog.definition(name).await?;
        }
        Err(Error::new(ErrorKind::Busy, format!("table {name} was removed while it was made")))
    }

    /// Reads the metadata of all open tables anew.
    pub(crate) async fn refresh(&self) -> Result<()> {
        let contexts: Vec<_> = {
            let open = self.open.lock();
            open.contexts.values().cloned().collect()
        };
        for context in contexts {
            context.metadata_cache.refresh().await?;
        }
        Ok(())
    }

    /// Waits for a change, as long as its call does.
    pub(crate) fn change<T>(
        &self,
        call: &Call,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        call.check()?;
        self.client.wait_unless(call, Use::Write, work)
    }

    /// Waits for a read, as long as its call does.
    pub(crate) fn read<T>(&self, call: &Call, work: impl Future<Output = Result<T>>) -> Result<T> {
        call.check()?;
        self.client.wait_unless(call, Use::Read, work)
    }
}
