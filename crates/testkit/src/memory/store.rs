//! The store: all of its state behind one lock.

use super::session::{begin, resume, rows_of};
use super::snapshot::MemorySnapshot;
use super::state::{MemoryState, random};
use super::table::MemoryTable;
use idmatch_model::{ErasureKey, Period, SeenAt, TableId, TableName, TableOptions, Target};
use idmatch_store::locks::Mutex;
use idmatch_store::{
    Admin, Call, Durability, Erased, Erasures, Error, ErrorFields, ErrorKind, Finding, NewWrite,
    ObservationSource, Repaired, Result, SessionAddress, Snapshot, Store, WriteSession, now,
};
use std::path::Path;
use std::sync::Arc;

/// A store that is gone when its last clone is dropped.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<MemoryState>>);

impl MemoryStore {
    /// A store without tables.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Adds all rows at once.
    fn add(&self, id: TableId, source: &dyn ObservationSource, call: &Call) -> Result<()> {
        let mut rows = Vec::new();
        while let Some(batch) = source.next_batch()? {
            call.check()?;
            rows.extend(rows_of(&batch)?);
        }
        self.0.lock().change(id)?.add(&rows);
        Ok(())
    }
}

impl Store for MemoryStore {
    fn snapshot(&self, call: &Call) -> Result<Arc<dyn Snapshot>> {
        call.check()?;
        Ok(Arc::new(MemorySnapshot { state: self.0.lock().clone(), at: now() }))
    }

    fn create_table(
        &self,
        name: &TableName,
        options: &TableOptions,
        _: Option<u64>,
        _: &Call,
    ) -> Result<TableId> {
        let (id, store) = (TableId(u128::from_be_bytes(random()?)), random()?);
        options.check()?;
        let mut state = self.0.lock();
        if state.id == 0 {
            state.id = u128::from_be_bytes(store);
        }
        match state.tables.get(name) {
            Some(table) if table.options == *options => Ok(table.id),
            Some(table) => Err(Error::other_options(name, &table.options, options)),
            None => {
                let (name, options) = (name.clone(), options.clone());
                let (observed, replacing) = (Arc::default(), None);
                let table = MemoryTable { id, name: name.clone(), options, observed, replacing };
                state.put(table, &name)?;
                Ok(id)
            }
        }
    }

    fn set_retention(&self, table: TableId, retention: Option<Period>, _: &Call) -> Result<()> {
        retention.as_ref().map_or(Ok(()), Period::check_retention)?;
        self.0.lock().change(table)?.options.retention = retention;
        Ok(())
    }

    fn rename_table(&self, table: &TableName, to: &TableName, _: &Call) -> Result<()> {
        let mut state = self.0.lock();
        state.resolve(table)?;
        if state.tables.contains_key(to) {
            return Err(Error::name_taken(to));
        }
        let found = state.take(table)?;
        state.left.insert(table.clone(), found.observed.erasures());
        state.put(found, to)
    }

    fn swap_tables(&self, one: &TableName, other: &TableName, _: &Call) -> Result<()> {
        let mut state = self.0.lock();
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
        let mut state = self.0.lock();
        let found = state.take(table)?;
        state.left.insert(table.clone(), found.observed.erasures());
        Ok(())
    }

    fn begin(&self, write: NewWrite, call: &Call) -> Result<Box<dyn WriteSession>> {
        call.check()?;
        begin(&self.0, write)
    }

    fn resume(&self, session: SessionAddress, call: &Call) -> Result<Box<dyn WriteSession>> {
        call.check()?;
        resume(&self.0, session)
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
        let mut state = self.0.lock();
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
        let state = self.0.lock();
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
        let state = self.0.lock();
        let hashes = state.table(table)?.observed.erasures();
        Ok(Erasures { key: state.erasure_key, hashes })
    }

    fn import_tombstones(&self, table: TableId, erasures: &Erasures, _: &Call) -> Result<()> {
        let mut state = self.0.lock();
        let key = state.key()?;
        let table = state.change(table)?;
        erasures.check_key(Some(key), &table.name)?;
        Arc::make_mut(&mut table.observed).erase(key, &erasures.hashes);
        Ok(())
    }

    fn adopt_erasure_key(&self, key: ErasureKey, _: &Call) -> Result<ErasureKey> {
        Ok(*self.0.lock().erasure_key.get_or_insert(key))
    }
}
