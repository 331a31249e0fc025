//! The store of a directory: opens it, and delegates to the owners.

use super::handle::StoreHandle;
use super::logged::{ResultSizes, figures_of, logged, name_of, number_of};
use super::owners::Owners;
use super::session::{begin, resume};
use super::snapshot::EngineSnapshot;
use crate::catalog::Catalog;
use crate::cpu;
use crate::disk::{Disk, OsDisk, place};
use crate::options::MemoryLimits;
use crate::recovery::{Recovery, Repair};
use crate::verify::{verify_files, verify_table};
use crate::versions::{CopyKind, VersionSet};
use crate::writer_lock::WriterLock;
use idmatch_model::{ErasureKey, Period, SeenAt, TableId, TableName, TableOptions, Target};
use idmatch_store::{
    Admin, Call, Checkpoint, Durability, Erased, Erasures, Error, ErrorKind, Finding, NewWrite,
    ObservationSource, Repaired, Result, SessionAddress, Snapshot, Status, Store, WriteSession,
};
use prometheus_client::registry::Registry;
use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A store in a folder. Clones share it.
#[derive(Debug, Clone)]
pub struct EngineStore {
    owners: Arc<StoreHandle>,
}

impl EngineStore {
    /// Opens the store in a folder. A folder that does not exist yet, or is empty, is a store without tables;
    /// the first write makes the files that it needs. Handles of one process share the writer, the memory and
    /// the current version.
    ///
    /// # Errors
    /// `NotAStore` if the folder holds something else, `Corrupt` and `UnsupportedFormat` for
    /// damaged or newer files. Cost: two small reads per segment.
    pub fn open(root: &Path) -> Result<EngineStore> {
        EngineStore::open_on(Arc::new(OsDisk), root)
    }

    /// Opens a store on a disk of the caller's.
    pub fn open_on(disk: Arc<dyn Disk>, root: &Path) -> Result<EngineStore> {
        EngineStore::open_with(disk, root, MemoryLimits::default())
    }

    /// Opens a store with these limits. A store that is open in this process already keeps its own limits.
    pub fn open_with(
        disk: Arc<dyn Disk>,
        root: &Path,
        limits: MemoryLimits,
    ) -> Result<EngineStore> {
        // An absolute path stays right when the process changes its working directory.
        let root = std::path::absolute(root).map_err(|e| {
            let what = format!("{root:?} is no path of a store");
            Error::with_source(ErrorKind::InvalidArgument, what, e)
        })?;
        Ok(EngineStore { owners: StoreHandle::open(disk, &root, limits)? })
    }

    /// Sets the durability of upserts through this handle and its clones, unless a call asks for more.
    pub fn set_durability(&self, durability: Durability) {
        self.owners.set_durability(durability);
    }

    /// The durability of upserts, unless a call asks for more.
    pub fn durability(&self) -> Durability {
        self.owners.durability()
    }

    /// Ends the writing of this process, so that another may write. Reading goes on; the next write obtains
    /// the writer lock again.
    ///
    /// # Errors
    /// `Io` if that could not be noted in the manifest; nothing is lost then.
    pub fn end_writing(&self) -> Result<()> {
        self.owners.writes.close()
    }

    /// The states of the tables in memory, for tests of what versions share: as long as a table does not change,
    /// its state stays the same one.
    #[doc(hidden)]
    pub fn table_states(&self) -> BTreeMap<TableId, Arc<dyn Any + Send + Sync>> {
        let version = self.owners.versions.current();
        let tables = version.tables.iter();
        tables.map(|(id, table)| (TableId::from(*id), table.clone() as Arc<_>)).collect()
    }

    /// Recovers a store that does not open because a segment is missing or its header is damaged, or because
    /// the journal is damaged. From the readable parts it makes a store that opens. A manifest that is older
    /// than the last published one can be accepted, too. Returns the problems. If the store opens, there are
    /// none, and nothing is changed. [`Admin::repair`] repairs the rest.
    ///
    /// # Errors
    /// `Corrupt`, and nothing changes, if something would be lost and that is not accepted, or if
    /// the manifest or a tombstone file is damaged; `Busy` while another process writes; `Cancelled`, and
    /// nothing changes.
    pub fn recover(
        disk: Arc<dyn Disk>,
        root: &Path,
        (accept_loss, accept_older): (bool, bool),
        call: &Call,
    ) -> Result<Vec<Finding>> {
        let versions = Arc::new(VersionSet::unopened(disk, root, MemoryLimits::default()));
        let lock = WriterLock::new(versions.clone());
        let recovery = Recovery { versions: &versions, lock: &lock };
        logged(
            "recover",
            "",
            |found: &Vec<_>| number_of(found),
            || recovery.run((accept_loss, accept_older), call),
        )
    }

    /// Copies a backup to an empty place, and opens it. With `verify`, every checksum of the backup is
    /// verified first. Cost: the files are read once for that; where hard links are possible, the copy
    /// itself costs little.
    ///
    /// # Errors
    /// The errors of [`EngineStore::open`] for the backup; `InvalidArgument` if the place is taken;
    /// `Corrupt`, and nothing is copied, if a file of the backup is damaged; `Cancelled`, and nothing is left
    /// there.
    pub fn restore(
        source: &Path,
        destination: &Path,
        verify: bool,
        call: &Call,
    ) -> Result<EngineStore> {
        let backup = EngineStore::open(source)?;
        if verify {
            let versions = &backup.owners.versions;
            let findings = verify_files(versions, &versions.current(), call)?;
            if let Some(first) = findings.first() {
                let (damaged, problem) = (findings.len(), &first.problem);
                let text = format!(
                    "{damaged} files of the backup are damaged, nothing was restored: {problem}; take \
                     another backup, or restore without verification and repair the store"
                );
                let place = place(Path::new(&first.place), None);
                return Err(Error::new(ErrorKind::Corrupt, text).with_fields(place));
            }
        }
        backup.owners.backup(destination, None, call)?;
        EngineStore::open(destination)
    }
}

impl EngineStore {
    /// The owners, for a write.
    fn writer(&self) -> Result<&Owners> {
        self.owners.check_open()?;
        Ok(&self.owners)
    }

    fn catalog(&self) -> Result<Catalog<'_>> {
        let Owners { versions, lock, writes, eraser, .. } = self.writer()?;
        Ok(Catalog { versions, lock, writes, eraser })
    }
}

impl Store for EngineStore {
    fn snapshot(&self, _: &Call) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(EngineSnapshot::new(&self.owners)))
    }

    fn create_table(
        &self,
        name: &TableName,
        options: &TableOptions,
        _: Option<u64>,
        call: &Call,
    ) -> Result<TableId> {
        Ok(self.catalog()?.create(name, options, call)?.into())
    }

    fn set_retention(&self, table: TableId, retention: Option<Period>, call: &Call) -> Result<()> {
        self.catalog()?.set_retention(table.into(), retention, call)
    }

    fn rename_table(&self, table: &TableName, to: &TableName, call: &Call) -> Result<()> {
        self.catalog()?.rename(table, to, call)
    }

    fn swap_tables(&self, one: &TableName, other: &TableName, call: &Call) -> Result<()> {
        self.catalog()?.swap(one, other, call)
    }

    fn drop_table(&self, table: &TableName, call: &Call) -> Result<()> {
        self.catalog()?.drop_table(table, call)
    }

    fn begin(&self, write: NewWrite, call: &Call) -> Result<Box<dyn WriteSession>> {
        begin(&self.owners, write, call)
    }

    fn resume(&self, session: SessionAddress, _: &Call) -> Result<Box<dyn WriteSession>> {
        resume(&self.owners, session)
    }

    fn upsert(
        &self,
        table: TableId,
        rows: &dyn ObservationSource,
        durability: Option<Durability>,
        call: &Call,
    ) -> Result<()> {
        cpu::note_foreground();
        let of_store = self.owners.durability();
        let durability = durability.unwrap_or(of_store).min(of_store);
        self.writer()?.writes.upsert(table.into(), rows, durability, call)
    }

    fn erase(
        &self,
        table: &TableName,
        targets: &[Target],
        at: SeenAt,
        call: &Call,
    ) -> Result<Erased> {
        let owners = self.writer()?;
        let rows =
            |erased: &Erased| ResultSizes { rows: Some(erased.by_id), ..ResultSizes::default() };
        logged("erase", table.as_str(), rows, || {
            let erased = owners.eraser.erase(table, targets, at, call)?;
            let checkpoints = owners.checkpoints_showing(table, targets, at, call)?;
            Ok(Erased { checkpoints, ..erased })
        })
    }

    fn refresh(&self, call: &Call) -> Result<()> {
        call.check()?;
        self.owners.lock.refresh()
    }

    fn status(&self) -> Status {
        let versions = &self.owners.versions;
        let is_checkpoint = versions.current().manifest.checkpoint_times().is_some();
        let last_background_error = versions.background.errors.last();
        let is_writer = self.owners.lock.held().is_some();
        let pinned = versions.reaper.status();
        Status { is_checkpoint, is_writer, last_background_error, ..pinned }
    }

    fn checkpoints(&self, _: &Call) -> Result<Vec<Checkpoint>> {
        self.owners.checkpoints()
    }

    fn metrics(&self, registry: &mut Registry) {
        super::metrics::register(&self.owners, registry);
    }

    fn close(&self) -> Result<()> {
        self.owners.close()
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

impl Admin for EngineStore {
    fn compact(&self, table: TableId, call: &Call) -> Result<()> {
        let owners = self.writer()?;
        call.check()?;
        let _guard = owners.lock.acquire_for(call)?;
        let after = |_: &()| figures_of(&owners.versions, table);
        logged("compact", &name_of(&owners.versions, table), after, || {
            owners.writes.flush_all(call)?;
            owners.compactor.compact(table.into(), call)
        })
    }

    fn verify(&self, table: TableId, call: &Call) -> Result<Vec<Finding>> {
        let versions = &self.owners.versions;
        let name = name_of(versions, table);
        logged(
            "verify",
            &name,
            |found: &Vec<_>| number_of(found),
            || verify_table(versions, table.into(), call),
        )
    }

    fn repair(&self, table: TableId, accept_loss: bool, call: &Call) -> Result<Repaired> {
        let Owners { versions, lock, writes, compactor, loader, .. } = self.writer()?;
        let repair = Repair { versions, lock, writes, compactor, loader };
        let name = name_of(versions, table);
        logged(
            "repair",
            &name,
            |done: &Repaired| number_of(&done.findings),
            || repair.table(table.into(), accept_loss, call),
        )
    }

    fn backup(&self, destination: &Path, call: &Call) -> Result<()> {
        let owners = self.writer()?;
        let bytes = |bytes: &u64| ResultSizes { bytes: Some(*bytes), ..ResultSizes::default() };
        logged("backup", "", bytes, || owners.backup(destination, Some(CopyKind::Backup), call))?;
        Ok(())
    }

    fn checkpoint(
        &self,
        destination: Option<&Path>,
        keep: Duration,
        call: &Call,
    ) -> Result<Checkpoint> {
        self.writer()?.checkpoint(destination, keep, call)
    }

    fn remove_checkpoint(&self, path: &Path, _: &Call) -> Result<()> {
        self.writer()?.remove_checkpoint(path)
    }

    fn export_tombstones(&self, table: TableId, _: &Call) -> Result<Erasures> {
        let store = self.owners.versions.current();
        let key = store.manifest.erasure_key()?;
        let table = self.owners.versions.table_of(&store, table.into())?;
        let hashes = table.row_rules.tombstones.all();
        Ok(Erasures { key, hashes })
    }

    fn import_tombstones(&self, table: TableId, erasures: &Erasures, call: &Call) -> Result<()> {
        self.writer()?.eraser.add_tombstones(table.into(), erasures, call)
    }

    fn adopt_erasure_key(&self, key: ErasureKey, call: &Call) -> Result<ErasureKey> {
        self.writer()?.eraser.adopt_key(key, call)
    }
}
