//! A table by its name, for callers that read and write the table as it is.
//!
//! Each call resolves the name, and reads at a snapshot of its own. Must not know any backend.

use crate::{
    Admin, Answers, BatchSource, Call, Counting, Durability, Erased, Erasures, Error, ErrorFields,
    ErrorKind, Finding, Lookup, Match, MatchQuery, NewWrite, ObservationSource, Repaired, Result,
    Store, TableSnapshot, TableStats, WriteSession,
};
use idmatch_model::{Period, SeenAt, Side, TableId, TableName, TableOptions, Target, Window};
use std::sync::Arc;

/// A name in a store. Cheap to clone.
#[derive(Clone)]
pub struct Table {
    store: Arc<dyn Store>,
    name: TableName,
    call: Call,
}

/// Expected rows of a table in tests.
const SMALL_TABLE_ROWS: u64 = 64_000;

/// Opens tables by name.
pub trait OpenTables {
    /// The table of that name, made with these options and for at most a million rows if it is missing.
    ///
    /// # Errors
    /// `TableExists` for other options.
    fn table_with(&self, name: &TableName, options: &TableOptions) -> Result<Table>;

    /// A table that exists.
    ///
    /// # Errors
    /// `TableNotFound`.
    fn table(&self, name: &TableName) -> Result<Table>;

    /// The names of all tables, ascending.
    fn tables(&self) -> Result<Vec<TableName>>;
}

impl OpenTables for Arc<dyn Store> {
    fn table_with(&self, name: &TableName, options: &TableOptions) -> Result<Table> {
        self.create_table(name, options, Some(SMALL_TABLE_ROWS), &Call::default())?;
        Ok(Table::named(self, name))
    }

    fn table(&self, name: &TableName) -> Result<Table> {
        let call = Call::default();
        self.snapshot(&call)?.resolve(name, &call)?;
        Ok(Table::named(self, name))
    }

    fn tables(&self) -> Result<Vec<TableName>> {
        let call = Call::default();
        self.snapshot(&call)?.tables(&call)
    }
}

impl<S: Store + Clone + 'static> OpenTables for S {
    fn table_with(&self, name: &TableName, options: &TableOptions) -> Result<Table> {
        shared(self).table_with(name, options)
    }

    fn table(&self, name: &TableName) -> Result<Table> {
        shared(self).table(name)
    }

    fn tables(&self) -> Result<Vec<TableName>> {
        shared(self).tables()
    }
}

fn shared<S: Store + Clone + 'static>(store: &S) -> Arc<dyn Store> {
    Arc::new(store.clone())
}

impl Table {
    /// A table of this name, which need not exist.
    pub fn named(store: &Arc<dyn Store>, name: &TableName) -> Table {
        Table { store: store.clone(), name: name.clone(), call: Call::default() }
    }

    /// The same table for a caller that may give up or wants to hear of progress.
    #[must_use]
    pub fn with_call(&self, call: Call) -> Table {
        Table { call, ..self.clone() }
    }

    /// Its name.
    pub fn name(&self) -> &TableName {
        &self.name
    }

    /// Its store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The table as it is now.
    ///
    /// # Errors
    /// `TableNotFound`.
    pub fn snapshot(&self) -> Result<Arc<dyn TableSnapshot>> {
        self.snapshot_for(&self.call)
    }

    /// The table as it is now, for another call.
    ///
    /// # Errors
    /// `TableNotFound`.
    pub fn snapshot_for(&self, call: &Call) -> Result<Arc<dyn TableSnapshot>> {
        self.store.snapshot(call)?.table_named(&self.name, call)
    }

    /// Its options.
    pub fn options(&self) -> Result<TableOptions> {
        Ok(self.snapshot()?.options().clone())
    }

    /// See [`Store::set_retention`].
    pub fn set_retention(&self, retention: Option<Period>) -> Result<()> {
        self.store.set_retention(self.id()?, retention, &self.call)
    }

    /// See [`Store::load`].
    pub fn load(&self, rows: &dyn ObservationSource) -> Result<()> {
        self.store.load(NewWrite::load(self.id()?), rows, &self.call).map(drop)
    }

    /// See [`Store::begin`]; the table of `write` is this one.
    pub fn begin(&self, write: NewWrite) -> Result<Box<dyn WriteSession>> {
        self.store.begin(NewWrite { table: self.id()?, ..write }, &self.call)
    }

    /// See [`Store::upsert`].
    pub fn upsert(
        &self,
        rows: &dyn ObservationSource,
        durability: Option<Durability>,
    ) -> Result<()> {
        self.store.upsert(self.id()?, rows, durability, &self.call)
    }

    /// See [`Store::erase`].
    pub fn erase(&self, targets: &[Target], at: SeenAt) -> Result<Erased> {
        self.store.erase(&self.name, targets, at, &self.call)
    }

    /// The answers of one key, newest first. They are at position 0.
    pub fn answers(&self, by: Side, key: &str, window: Window) -> Result<Answers> {
        self.lookup_many(&[key], Lookup { window, ..Lookup::by(by) })
    }

    /// See [`TableSnapshot::lookup_many`].
    pub fn lookup_many(&self, keys: &[&str], lookup: Lookup) -> Result<Answers> {
        self.snapshot()?.lookup_many(keys, lookup, &self.call)
    }

    /// See [`TableSnapshot::last_seen`].
    pub fn last_seen(&self, id: &str, partner_id: &str) -> Result<Option<SeenAt>> {
        self.snapshot()?.last_seen(id, partner_id, &self.call)
    }

    /// See [`TableSnapshot::history`].
    pub fn history(&self, id: &str, partner_id: &str) -> Result<Vec<SeenAt>> {
        self.snapshot()?.history(id, partner_id, &self.call)
    }

    /// See [`TableSnapshot::match_population`].
    pub fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<Box<dyn Match>> {
        self.snapshot()?.match_population(population, query, &self.call)
    }

    /// See [`TableSnapshot::stats`].
    pub fn stats(&self) -> Result<TableStats> {
        self.snapshot()?.stats(Counting::Metadata, &self.call)
    }

    /// The same from rows that are read, as `counting` says.
    pub fn counted(&self, counting: Counting) -> Result<TableStats> {
        self.snapshot()?.stats(counting, &self.call)
    }

    /// See [`Admin::compact`].
    pub fn compact(&self) -> Result<()> {
        self.admin()?.compact(self.id()?, &self.call)
    }

    /// See [`Admin::verify`].
    pub fn verify(&self) -> Result<Vec<Finding>> {
        self.admin()?.verify(self.id()?, &self.call)
    }

    /// See [`Admin::repair`].
    pub fn repair(&self, accept_loss: bool) -> Result<Repaired> {
        self.admin()?.repair(self.id()?, accept_loss, &self.call)
    }

    /// See [`Admin::export_tombstones`].
    pub fn erasures(&self) -> Result<Erasures> {
        self.admin()?.export_tombstones(self.id()?, &self.call)
    }

    /// See [`Admin::import_tombstones`].
    pub fn add_erasures(&self, erasures: &Erasures) -> Result<()> {
        self.admin()?.import_tombstones(self.id()?, erasures, &self.call)
    }

    fn id(&self) -> Result<TableId> {
        self.store.snapshot(&self.call)?.resolve(&self.name, &self.call)
    }

    fn admin(&self) -> Result<&dyn Admin> {
        admin(self.store.as_ref())
    }
}

/// The maintenance of a store.
///
/// # Errors
/// `Unsupported` where this process cannot do it.
pub fn admin(store: &dyn Store) -> Result<&dyn Admin> {
    store.admin().ok_or_else(|| {
        let what = "this process does not maintain the store: it is open to be read only, or its files are elsewhere";
        let instead = "the same call where its files are, without read_only".to_owned();
        Error::new(ErrorKind::Unsupported, what).with_fields(ErrorFields::Unsupported { instead })
    })
}
