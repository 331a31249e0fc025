//! The reference: a store in memory that is as plain as can be.
//!
//! It exists to be obviously right, so that other backends can be compared with it. It
//! holds every observation in ordered maps, answers by looking at all dates of a key, and
//! computes a match completely before it hands it out. A snapshot is a copy. Nothing here is fast.

mod matched;
mod observed;
mod table;

use idmatch_model::{
    ErasureKey, Period, SeenAt, TableId, TableName, TableOptions, Target, check_id,
};
use idmatch_store::{
    Admin, Call, Durability, Erased, Erasures, Error, ErrorFields, ErrorKind, Finding,
    ObservationSource, Repaired, Result, Snapshot, Store, TableSnapshot, Version, now,
};
use observed::Observed;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table::MemoryTable;

/// A store that is gone when its last clone is dropped.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<State>>);

#[derive(Clone, Default)]
struct State {
    /// Shared with the snapshots that show no other tables.
    tables: Arc<BTreeMap<TableName, MemoryTable>>,
    /// The tombstones of names that tables have left.
    left: BTreeMap<TableName, Vec<(u128, SeenAt)>>,
    /// What tombstones are hashed with; chosen with the first.
    erasure_key: Option<ErasureKey>,
    /// The writes so far.
    commit: u64,
    /// Names the store; chosen with the first table.
    id: u128,
}

impl State {
    fn table(&self, id: TableId) -> Result<&MemoryTable> {
        self.tables.values().find(|table| table.id == id).ok_or_else(|| missing(id))
    }

    fn resolve(&self, name: &TableName) -> Result<&MemoryTable> {
        self.tables.get(name).ok_or_else(|| unnamed(name))
    }

    /// A table that is about to change.
    fn change(&mut self, id: TableId) -> Result<&mut MemoryTable> {
        self.commit += 1;
        Arc::make_mut(&mut self.tables)
            .values_mut()
            .find(|table| table.id == id)
            .ok_or_else(|| missing(id))
    }

    /// Takes the table of this name out, to be given another one or none.
    fn take(&mut self, name: &TableName) -> Result<MemoryTable> {
        self.commit += 1;
        Arc::make_mut(&mut self.tables).remove(name).ok_or_else(|| unnamed(name))
    }

    /// Gives a table a name that is free, with the tombstones that the name has.
    fn put(&mut self, mut table: MemoryTable, name: &TableName) -> Result<()> {
        if let Some(tombstones) = self.left.remove(name) {
            let key = self.key()?;
            Arc::make_mut(&mut table.observed).erase(key, &tombstones);
        }
        table.name = name.clone();
        Arc::make_mut(&mut self.tables).insert(name.clone(), table);
        Ok(())
    }

    /// What tombstones are hashed with.
    fn key(&mut self) -> Result<ErasureKey> {
        let new = ErasureKey::new(random()?);
        Ok(*self.erasure_key.get_or_insert(new))
    }
}

impl MemoryStore {
    /// A store without tables.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds all rows at once.
    fn add(&self, id: TableId, source: &dyn ObservationSource, call: &Call) -> Result<()> {
        let mut rows = Vec::new();
        while let Some(batch) = source.next_batch()? {
            call.check()?;
            let pairs = batch.ids.iter().zip(batch.partner_ids.iter());
            for ((id, partner_id), seen_at) in pairs.zip(&batch.seen_at) {
                let (id, partner_id) = (check_id(id)?, check_id(partner_id)?);
                rows.push((id.to_owned(), partner_id.to_owned(), *seen_at));
            }
        }
        let mut state = self.lock();
        let table = state.change(id)?;
        let (keep, observed) = (table.options.keep, Arc::make_mut(&mut table.observed));
        for (id, partner_id, seen_at) in rows {
            observed.add(keep, &id, &partner_id, seen_at);
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn snapshot(&self, call: &Call) -> Result<Arc<dyn Snapshot>> {
        call.check()?;
        Ok(Arc::new(MemorySnapshot { state: self.lock().clone(), at: now() }))
    }

    fn create_table(&self, name: &TableName, options: &TableOptions, _: &Call) -> Result<TableId> {
        let (id, store) = (TableId(u128::from_be_bytes(random()?)), random()?);
        options.check()?;
        let mut state = self.lock();
        if state.id == 0 {
            state.id = u128::from_be_bytes(store);
        }
        match state.tables.get(name) {
            Some(table) if table.options == *options => Ok(table.id),
            Some(table) => Err(Error::other_options(name, &table.options, options)),
            None => {
                let (name, options) = (name.clone(), options.clone());
                let observed = Arc::new(Observed::default());
                state.put(MemoryTable { id, name: name.clone(), options, observed }, &name)?;
                Ok(id)
            }
        }
    }

    fn set_retention(&self, table: TableId, retention: Option<Period>, _: &Call) -> Result<()> {
        retention.as_ref().map_or(Ok(()), Period::check_retention)?;
        self.lock().change(table)?.options.retention = retention;
        Ok(())
    }

    fn rename_table(&self, table: &TableName, to: &TableName, _: &Call) -> Result<()> {
        let mut state = self.lock();
        state.resolve(table)?;
        if state.tables.contains_key(to) {
            return Err(Error::name_taken(to));
        }
        let found = state.take(table)?;
        state.left.insert(table.clone(), found.observed.erasures());
        state.put(found, to)
    }

    fn swap_tables(&self, one: &TableName, other: &TableName, _: &Call) -> Result<()> {
        let mut state = self.lock();
        let (first, second) = (state.resolve(one)?.clone(), state.resolve(other)?.clone());
        if one == other {
            return Ok(());
        }
        for (name, table, tombstones) in [(other, &first, &second), (one, &second, &first)] {
            state.take(name)?;
            state.left.insert(name.clone(), tombstones.observed.erasures());
            state.put(table.clone(), name)?;
        }
        Ok(())
    }

    fn drop_table(&self, table: &TableName, _: &Call) -> Result<()> {
        let mut state = self.lock();
        let found = state.take(table)?;
        state.left.insert(table.clone(), found.observed.erasures());
        Ok(())
    }

    fn load(&self, table: TableId, rows: &dyn ObservationSource, call: &Call) -> Result<()> {
        self.add(table, rows, call)
    }

    fn upsert(
        &self,
        table: TableId,
        rows: &dyn ObservationSource,
        _: Option<Durability>,
        call: &Call,
    ) -> Result<()> {
        self.add(table, rows, call)
    }

    fn erase(&self, table: &TableName, targets: &[Target], at: SeenAt, _: &Call) -> Result<Erased> {
        let mut state = self.lock();
        let table = state.resolve(table)?.id;
        let key = state.key()?;
        let hashes: Vec<_> = targets.iter().map(|target| (key.of(target), at)).collect();
        Ok(Arc::make_mut(&mut state.change(table)?.observed).erase(key, &hashes))
    }

    fn refresh(&self, _: &Call) -> Result<()> {
        Ok(())
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

impl Admin for MemoryStore {
    fn compact(&self, _: TableId, _: &Call) -> Result<()> {
        Ok(())
    }

    fn verify(&self, table: TableId, _: &Call) -> Result<Vec<Finding>> {
        let state = self.lock();
        let table = state.table(table)?;
        if table.observed.is_consistent() {
            return Ok(Vec::new());
        }
        Ok(vec![Finding {
            place: format!("table {}", table.name),
            problem: "its two directions hold different observations".to_owned(),
        }])
    }

    fn repair(&self, _: TableId, _: bool, _: &Call) -> Result<Repaired> {
        Ok(Repaired::default())
    }

    fn backup(&self, destination: &Path, _: &Call) -> Result<()> {
        let text = format!(
            "cannot back up to {}: a store in memory has no files; copy its tables",
            destination.display()
        );
        let instead = "copy_table".to_owned();
        Err(Error::new(ErrorKind::Unsupported, text)
            .with_fields(ErrorFields::Unsupported { instead }))
    }

    fn export_tombstones(&self, table: TableId, _: &Call) -> Result<Erasures> {
        let state = self.lock();
        let hashes = state.table(table)?.observed.erasures();
        Ok(Erasures { key: state.erasure_key, hashes })
    }

    fn import_tombstones(&self, table: TableId, erasures: &Erasures, _: &Call) -> Result<()> {
        let mut state = self.lock();
        let key = state.key()?;
        let table = state.change(table)?;
        erasures.check_key(Some(key), &table.name)?;
        Arc::make_mut(&mut table.observed).erase(key, &erasures.hashes);
        Ok(())
    }

    fn adopt_erasure_key(&self, key: ErasureKey, _: &Call) -> Result<ErasureKey> {
        Ok(*self.lock().erasure_key.get_or_insert(key))
    }
}

/// A copy of all tables.
struct MemorySnapshot {
    state: State,
    at: SeenAt,
}

impl Snapshot for MemorySnapshot {
    fn version(&self) -> Option<Version> {
        let State { id, commit, .. } = self.state;
        Some(Version { store: id, publication: 0, journal: 0, commit })
    }

    fn tables(&self, _: &Call) -> Result<Vec<TableName>> {
        Ok(self.state.tables.keys().cloned().collect())
    }

    fn resolve(&self, name: &TableName, _: &Call) -> Result<TableId> {
        self.state.resolve(name).map(|table| table.id)
    }

    fn table(&self, id: TableId, _: &Call) -> Result<Arc<dyn TableSnapshot>> {
        let table = self.state.table(id)?.clone();
        Ok(Arc::new(table.at(self.version(), self.at)))
    }
}

fn unnamed(name: &TableName) -> Error {
    let text = format!("there is no table {name}; create it first");
    Error::new(ErrorKind::TableNotFound, text)
}

fn missing(id: TableId) -> Error {
    Error::new(ErrorKind::TableNotFound, format!("there is no table with the identity {id}"))
}

fn random() -> Result<[u8; 16]> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|e| Error::with_source(ErrorKind::Io, "the system gives no random bytes", e))?;
    Ok(random)
}
