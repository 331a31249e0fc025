//! The class `Store` of Python, in a directory or on servers, and the recovery of a directory.

use crate::checkpoints::{self, CheckpointTold};
use crate::errors::{OrRaise, closed, raise};
use crate::interrupt::{Watch, interruptible, short, uninterrupted};
use crate::process::Own;
use crate::sessions::Session;
use crate::snapshots::Snapshot;
use crate::store_context::StoreContext;
use crate::tables::Table;
use idmatch_cql::{CqlStore, Settings};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Period, TableName, TableOptions};
use idmatch_store::locks::RwLock;
use idmatch_store::{
    Call, CallKind, Durability, Error, ErrorKind, ReadOnly, Result, SessionAddress, admin,
    exposition, registry,
};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Pinned bytes, the age of the oldest version, whether it is a checkpoint, whether this process is the writer, and
/// the background work that fails.
type StatusTold = (u64, Option<f64>, bool, bool, Option<(&'static str, String, u64, u64, u64)>);

/// A store in a folder or on servers.
#[pyclass(frozen, module = "idmatch._core")]
pub(crate) struct Store {
    #[pyo3(get)]
    path: String,
    store: Own<RwLock<Option<Arc<dyn idmatch_store::Store>>>>,
    context: StoreContext,
}

/// Opens the store in a folder.
#[pyfunction]
#[pyo3(signature = (path, interval_millis, memtable_bytes, writer_wait_millis, read_only, progress))]
pub(crate) fn open_store(
    py: Python<'_>,
    path: String,
    interval_millis: Option<u64>,
    memtable_bytes: Option<usize>,
    writer_wait_millis: u64,
    read_only: bool,
    progress: Option<bool>,
) -> PyResult<Store> {
    let mut limits = MemoryLimits::default();
    limits.memtable_bytes = memtable_bytes.unwrap_or(limits.memtable_bytes);
    let open = || EngineStore::open_with(Arc::new(OsDisk), Path::new(&path), limits);
    let store = uninterrupted(py, open)?.or_raise(py)?;
    if let Some(millis) = interval_millis {
        store.set_durability(Durability::Interval(Duration::from_millis(millis)));
    }
    let context = StoreContext::new(path, false, Duration::from_millis(writer_wait_millis));
    Ok(Store::new(context.showing(progress), shared(store, read_only)))
}

fn shared(
    store: impl idmatch_store::Store + 'static,
    read_only: bool,
) -> Arc<dyn idmatch_store::Store> {
    if read_only { Arc::new(ReadOnly(Arc::new(store))) } else { Arc::new(store) }
}

/// Opens the store on the servers of an address.
#[pyfunction]
#[pyo3(signature = (address, read_only, progress))]
pub(crate) fn open_servers(
    py: Python<'_>,
    address: &str,
    read_only: bool,
    progress: Option<bool>,
) -> PyResult<Store> {
    let settings = settings(address).or_raise(py)?;
    let path = settings.shown();
    let store = uninterrupted(py, || CqlStore::open(settings))?.or_raise(py)?;
    let context = StoreContext::new(path, true, Duration::ZERO).showing(progress);
    Ok(Store::new(context, shared(store, read_only)))
}

/// The effective settings of an address, as (name, value, description).
#[pyfunction]
pub(crate) fn explain_address(
    py: Python<'_>,
    address: &str,
) -> PyResult<Vec<(&'static str, String, &'static str)>> {
    let effective = settings(address).or_raise(py)?.effective();
    Ok(effective.into_iter().map(|one| (one.name, one.value, one.about)).collect())
}

/// The contact points and the keyspace of an address.
#[pyfunction]
pub(crate) fn address_parts(py: Python<'_>, address: &str) -> PyResult<(Vec<String>, String)> {
    let settings = settings(address).or_raise(py)?;
    Ok((settings.nodes, settings.keyspace))
}

pub(crate) fn settings(address: &str) -> Result<Settings> {
    Settings::parse(address, &|name| std::env::var(name).ok())
}

/// Copies a backup to a new place; with `verify`, verifies every checksum of it before.
#[pyfunction]
pub(crate) fn restore(
    py: Python<'_>,
    source: PathBuf,
    destination: PathBuf,
    verify: bool,
) -> PyResult<()> {
    interruptible(py, |watch| EngineStore::restore(&source, &destination, verify, &watch.call()))?
        .or_raise(py)
        .map(drop)
}

/// Names the program that this process runs, such as `idmatch load`, for other processes that want to write a
/// store meanwhile.
#[pyfunction]
pub(crate) fn name_process(program: &str) {
    idmatch_engine::name_process(program);
}

/// Makes matches and scans of this process release the pages of segments that they have read.
#[pyfunction]
pub(crate) fn give_memory_back() {
    idmatch_engine::disk::give_memory_back();
}

/// Recovers a store that cannot be opened; returns problems as (place, problem).
#[pyfunction]
pub(crate) fn recover(
    py: Python<'_>,
    path: PathBuf,
    accept_loss: bool,
    accept_older: bool,
) -> PyResult<Vec<(String, String)>> {
    let recover = |watch: &Watch| {
        let disk = Arc::new(OsDisk);
        EngineStore::recover(disk, &path, (accept_loss, accept_older), &watch.call())
    };
    let findings = interruptible(py, recover)?.or_raise(py)?;
    Ok(findings.into_iter().map(|found| (found.place, found.problem)).collect())
}

/// Parses `keep`; InvalidArgument for an unknown name.
fn keep(py: Python<'_>, name: &str) -> PyResult<Keep> {
    match name {
        "last" => Ok(Keep::Last),
        "all" => Ok(Keep::All),
        _ => {
            let text = format!("keep is {name:?}; use \"last\" or \"all\"");
            Err(raise(py, &Error::new(ErrorKind::InvalidArgument, text)))
        }
    }
}

fn name(py: Python<'_>, text: &str) -> PyResult<TableName> {
    text.parse().or_raise(py)
}

fn named_options(
    py: Python<'_>,
    name: &str,
    keep: &str,
    retention: Option<&str>,
) -> PyResult<(TableName, TableOptions)> {
    let retention = retention.map(Period::parse).transpose().or_raise(py)?;
    Ok((self::name(py, name)?, TableOptions { keep: self::keep(py, keep)?, retention }))
}

impl Store {
    fn new(context: StoreContext, store: Arc<dyn idmatch_store::Store>) -> Store {
        Store { path: context.path.clone(), store: Own::new(RwLock::new(Some(store))), context }
    }

    /// The store; InvalidArgument after it was closed.
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<Arc<dyn idmatch_store::Store>> {
        let store = self.store.get(py)?.read();
        store.clone().ok_or_else(|| closed(py, &self.path))
    }

    /// Runs a call that Ctrl-C can stop.
    fn run(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&dyn idmatch_store::Store, &Call) -> Result<()> + Send,
    ) -> PyResult<()> {
        let store = self.open(py)?;
        interruptible(py, |watch| work(store.as_ref(), &self.context.call(watch)))?.or_raise(py)
    }

    fn table_of(&self, table: idmatch_store::Table) -> Table {
        Table::new(table, None, self.context.clone())
    }
}

#[pymethods]
impl Store {
    #[getter]
    fn is_closed(&self) -> bool {
        self.context.is_closed.load(Relaxed)
    }

    /// Whether progress is shown; `None` where that depends on where Python runs.
    #[getter]
    fn progress(&self) -> Option<bool> {
        self.context.progress
    }

    /// Creates a table, or returns an existing one with the same options.
    #[pyo3(signature = (name, keep, retention, expected_rows))]
    fn create_table(
        &self,
        py: Python<'_>,
        name: &str,
        keep: &str,
        retention: Option<&str>,
        expected_rows: Option<u64>,
    ) -> PyResult<Table> {
        let (name, options) = named_options(py, name, keep, retention)?;
        self.run(py, |store, call| {
            store.create_table(&name, &options, expected_rows, call).map(drop)
        })?;
        let store = self.open(py)?;
        Ok(self.table_of(idmatch_store::Table::named(&store, &name)))
    }

    /// Gives a table another name.
    fn rename_table(&self, py: Python<'_>, old: &str, new: &str) -> PyResult<()> {
        let [old, new] = [name(py, old)?, name(py, new)?];
        self.run(py, |store, call| store.rename_table(&old, &new, call))
    }

    /// Exchanges the names of two tables.
    fn swap_tables(&self, py: Python<'_>, a: &str, b: &str) -> PyResult<()> {
        let [a, b] = [name(py, a)?, name(py, b)?];
        self.run(py, |store, call| store.swap_tables(&a, &b, call))
    }

    /// Removes a table.
    fn drop_table(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let name = self::name(py, name)?;
        self.run(py, |store, call| store.drop_table(&name, call))
    }

    /// An existing table.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let name = self::name(py, name)?;
        let store = self.open(py)?;
        let resolve = |call: &Call| store.snapshot(call)?.resolve(&name, call);
        short(py, self.context.is_remote, resolve)?.or_raise(py)?;
        Ok(self.table_of(idmatch_store::Table::named(&store, &name)))
    }

    /// The names of all tables, ascending.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let store = self.open(py)?;
        let all = |call: &Call| store.snapshot(call)?.tables(call);
        let names = short(py, self.context.is_remote, all)?.or_raise(py)?;
        Ok(names.into_iter().map(String::from).collect())
    }

    /// Opens a session that another process has begun; returns its table, too.
    fn resume(&self, py: Python<'_>, id: &str) -> PyResult<(Session, Table)> {
        let store = self.open(py)?;
        let address: SessionAddress = id.parse().or_raise(py)?;
        let (session, name) = interruptible(py, |watch| {
            let call = self.context.call(watch);
            store.refresh(&call)?;
            let table = store.snapshot(&call)?.table(address.table, &call)?;
            Ok((store.resume(address, &call)?, table.name().clone()))
        })?
        .or_raise(py)?;
        let table = self.table_of(idmatch_store::Table::named(&store, &name));
        Ok((Session::new(session, self.context.clone()), table))
    }

    /// Makes changes that other processes published visible to this store and its tables.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |store, call| store.refresh(call))
    }

    /// All tables at one point.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let store = self.open(py)?;
        let snapshot =
            short(py, self.context.is_remote, |call| store.snapshot(call))?.or_raise(py)?;
        Ok(Snapshot::new(store, snapshot, self.context.clone()))
    }

    /// Bytes that only old versions need, the age of the oldest in seconds, whether it is a checkpoint,
    /// whether this process is the writer, and the background work that fails: its name, error, begin, last
    /// failure and number of failures.
    fn status(&self, py: Python<'_>) -> PyResult<StatusTold> {
        let store = self.open(py)?;
        let status = uninterrupted(py, || store.status())?;
        let oldest = status.oldest_pinned.map(|age| age.as_secs_f64());
        let failing = status.last_background_error.map(|failing| {
            let (since, last) = (failing.since.millis(), failing.last.millis());
            (failing.work, failing.error, since, last, failing.failures)
        });
        let (is_checkpoint, is_writer) = (status.is_checkpoint, status.is_writer);
        Ok((status.pinned_bytes, oldest, is_checkpoint, is_writer, failing))
    }

    /// The figures of this process about the store, as OpenMetrics text.
    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        let store = self.open(py)?;
        uninterrupted(py, || {
            let mut registry = registry();
            self.context.calls.register(&mut registry);
            store.metrics(&mut registry);
            exposition(&registry)
        })
    }

    /// Copies a consistent snapshot of the whole store to a new place.
    fn backup(&self, py: Python<'_>, destination: PathBuf) -> PyResult<()> {
        let calls = &self.context.calls;
        self.run(py, |store, call| {
            calls.measure(CallKind::Backup, || admin(store)?.backup(&destination, call))
        })
    }

    /// Makes a version of the store readable for other processes.
    #[pyo3(signature = (destination, keep_millis))]
    fn checkpoint(
        &self,
        py: Python<'_>,
        destination: Option<PathBuf>,
        keep_millis: u64,
    ) -> PyResult<CheckpointTold> {
        let (store, keep) = (self.open(py)?, Duration::from_millis(keep_millis));
        let made = interruptible(py, |stop| {
            admin(store.as_ref())?.checkpoint(
                destination.as_deref(),
                keep,
                &self.context.call(stop),
            )
        })?;
        Ok(checkpoints::told(made.or_raise(py)?))
    }

    /// The checkpoints in the folder of the store, oldest first.
    fn checkpoints(&self, py: Python<'_>) -> PyResult<Vec<CheckpointTold>> {
        checkpoints::list(py, self.open(py)?.as_ref())
    }

    /// Removes a checkpoint of the store. It is no error if the checkpoint is already gone.
    fn remove_checkpoint(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.run(py, |store, call| admin(store)?.remove_checkpoint(&path, call))
    }

    /// Closes the store and its tables, and ends its writes.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.context.is_closed.store(true, Relaxed);
        // A fork does not close the store of its parent.
        let Some(store) = self.store.here() else { return Ok(()) };
        let store = store.write().take();
        store.map_or(Ok(()), |store| uninterrupted(py, move || store.close())?.or_raise(py))
    }
}
