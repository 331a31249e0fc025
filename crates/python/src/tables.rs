//! The class `Table` of Python: converts arguments and answers, and runs each call without the GIL.

use crate::answers;
use crate::checkpoints::{self, CheckpointTold};
use crate::errors::{OrRaise, raise};
use crate::interrupt::{Watch, interruptible, short, short_write, uninterrupted};
use crate::panics::caught;
use crate::process::Own;
use crate::raised::Raised;
use crate::sources::{GivenDates, PyRejects, PySource, ReadSource, date_rules, finish};
use crate::store_context::{Frozen, StoreContext};
use crate::table_reader::{Inner, TableReader};
use crate::values::lookup;
use arrow_array::{ArrayRef, StringArray, TimestampMillisecondArray};
use idmatch_model::{Keep, Period, SeenAt, TableName};
use idmatch_store::{
    BatchSource, Call, CallKind, Counting, Durability, Error, ErrorKind, Ingest, NoRejects,
    OneObservation, Result, count, now,
};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A lookup of fewer keys than this ends before anyone can press Ctrl-C.
const SHORT_LOOKUP_KEYS: usize = 10_000;

/// A date from Python, which is validated with the rest of its row.
#[derive(FromPyObject)]
enum DateArg {
    Millis(i64),
    Text(String),
}

/// A `TableStats` without dates, and the oldest and newest date.
type Stats<'py> = (Bound<'py, PyAny>, Option<i64>, Option<i64>);

/// A named set of observations, as it is now or as a snapshot shows it.
#[pyclass(frozen, module = "idmatch._core")]
pub(crate) struct Table {
    name: TableName,
    inner: Own<Inner>,
    context: StoreContext,
}

impl Table {
    pub(crate) fn new(
        table: idmatch_store::Table,
        frozen: Option<Frozen>,
        context: StoreContext,
    ) -> Table {
        let name = table.name().clone();
        Table { name, inner: Own::new(Inner { table, frozen }), context }
    }

    /// The table, to be written or maintained; InvalidArgument after its store was closed.
    pub(crate) fn written(&self, py: Python<'_>) -> PyResult<&idmatch_store::Table> {
        self.context.check_open(py)?;
        let inner = self.inner.get(py)?;
        if inner.frozen.is_none() {
            return Ok(&inner.table);
        }
        let text = "a snapshot is only read; write to the table of the store";
        Err(raise(py, &Error::new(ErrorKind::InvalidArgument, text)))
    }

    /// Runs long work on a table as [`interruptible`] does; Ctrl-C cancels the calls of the table.
    fn stoppable<T: Send>(
        &self,
        py: Python<'_>,
        table: &idmatch_store::Table,
        work: impl FnOnce(&idmatch_store::Table, &AtomicBool) -> Result<T> + Send,
    ) -> PyResult<Result<T>> {
        let run = |watch: &Watch| work(&table.with_call(self.context.call(watch)), watch.stop());
        interruptible(py, run)
    }

    fn measure<T>(&self, kind: CallKind, call: impl FnOnce() -> Result<T>) -> Result<T> {
        self.context.calls.measure(kind, call)
    }

    /// Runs and measures a short call.
    fn short<T: Send>(
        &self,
        py: Python<'_>,
        kind: CallKind,
        call: impl Fn(&Call) -> Result<T> + Sync,
    ) -> PyResult<Result<T>> {
        short(py, self.context.is_remote, |asked| self.measure(kind, || call(asked)))
    }

    /// The context of its store.
    pub(crate) fn context(&self) -> &StoreContext {
        &self.context
    }

    /// A reader of the table; InvalidArgument after its store or snapshot was closed.
    pub(crate) fn reader(&self, py: Python<'_>) -> PyResult<TableReader<'_>> {
        self.context.check_open(py)?;
        Ok(TableReader::of(self.inner.get(py)?))
    }
}

#[pymethods]
impl Table {
    #[getter]
    fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The path or the address of the store, without secrets.
    #[getter]
    fn store_path(&self) -> &str {
        &self.context.path
    }

    /// Whether the store is on servers.
    #[getter]
    fn is_remote(&self) -> bool {
        self.context.is_remote
    }

    /// Whether progress is shown; `None` where that depends on where Python runs.
    #[getter]
    fn progress(&self) -> Option<bool> {
        self.context.progress
    }

    /// About how many rows and bytes there are, without reading any; `None` on servers.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<Option<(u64, u64)>> {
        if self.context.is_remote {
            return Ok(None);
        }
        let reader = self.reader(py)?;
        let call = Call::default();
        let stats = uninterrupted(py, || reader.open(&call)?.stats(Counting::Metadata, &call))?
            .or_raise(py)?;
        Ok(Some((stats.rows, stats.bytes)))
    }

    #[getter]
    fn keep(&self, py: Python<'_>) -> PyResult<&'static str> {
        let reader = TableReader::of(self.inner.get(py)?);
        Ok(
            match short(py, self.context.is_remote, |call| reader.options(call))?.or_raise(py)?.keep
            {
                Keep::Last => "last",
                Keep::All => "all",
            },
        )
    }

    #[getter]
    fn retention(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let reader = TableReader::of(self.inner.get(py)?);
        let options =
            short(py, self.context.is_remote, |call| reader.options(call))?.or_raise(py)?;
        Ok(options.retention.as_ref().map(ToString::to_string))
    }

    /// Sets the retention; `None` keeps observations for ever.
    fn alter(&self, py: Python<'_>, retention: Option<&str>) -> PyResult<()> {
        let table = self.written(py)?;
        let retention = retention.map(Period::parse).transpose().or_raise(py)?;
        self.stoppable(py, table, |table, _| table.set_retention(retention))?.or_raise(py)
    }

    /// Upserts all sources; returns (rows read, rows rejected, newest date).
    #[allow(clippy::too_many_arguments, reason = "Python names them")]
    fn upsert(
        &self,
        py: Python<'_>,
        sources: &Bound<'_, PyAny>,
        strict: bool,
        on_rejects: Py<PyAny>,
        short: bool,
        always: bool,
        dates: GivenDates,
    ) -> PyResult<(u64, u64, Option<i64>)> {
        let (table, dates) = (self.written(py)?, date_rules(dates).or_raise(py)?);
        let (iterator, raised) = (sources.try_iter()?.unbind(), Raised::default());
        let mut rejects = PyRejects::new(on_rejects, raised.clone());
        let mut run = |table: &idmatch_store::Table, source: &mut dyn BatchSource| {
            let ingest = Ingest::new(strict, now(), &mut rejects).with_dates(dates.clone());
            let durability = always.then_some(Durability::Always);
            let upsert = || table.upsert(&ingest.judged(source), durability);
            self.measure(CallKind::Upsert, upsert)?;
            Ok((ingest.rows(), ingest.rejected(), ingest.newest().map(SeenAt::millis_i64)))
        };
        let upserted = if short && self.context.writer_wait.is_zero() {
            // The batches are read with the GIL: among many threads, it is then released and awaited only
            // once.
            let never = AtomicBool::new(false);
            let mut source = PySource::new(iterator, raised.clone(), &never);
            let read = caught(|| ReadSource::read(&mut source)).flatten();
            match read {
                Ok(mut read) => short_write(py, table, |table| run(table, &mut read))?,
                Err(error) => Err(error),
            }
        } else {
            self.stoppable(py, table, |table, stop| {
                run(table, &mut PySource::new(iterator, raised.clone(), stop))
            })?
        };
        finish(py, upserted, &raised)
    }

    /// Upserts one observation; raises for an invalid one.
    #[pyo3(signature = (id, partner_id, seen_at, always))]
    fn upsert_one(
        &self,
        py: Python<'_>,
        id: &str,
        partner_id: &str,
        seen_at: Option<DateArg>,
        always: bool,
    ) -> PyResult<()> {
        let table = self.written(py)?;
        let now = now();
        let of_millis = |millis| Arc::new(TimestampMillisecondArray::from_value(millis, 1));
        let seen_at: ArrayRef = match seen_at {
            None => of_millis(now.millis_i64()),
            Some(DateArg::Millis(millis)) => of_millis(millis),
            Some(DateArg::Text(text)) => Arc::new(StringArray::from(vec![text])),
        };
        let upsert = |table: &idmatch_store::Table| {
            let mut no_rejects = NoRejects;
            let ingest = Ingest::new(true, now, &mut no_rejects);
            let mut source = OneObservation::new(id, partner_id, seen_at)?;
            let durability = always.then_some(Durability::Always);
            self.measure(CallKind::Upsert, || table.upsert(&ingest.judged(&mut source), durability))
        };
        if self.context.writer_wait.is_zero() {
            return short_write(py, table, upsert)?.or_raise(py);
        }
        self.stoppable(py, table, |table, _| upsert(table))?.or_raise(py)
    }

    /// Erases all targets; returns (rows read, rejected, erased by id, by partner_id, the checkpoints that
    /// still show some of the targets).
    #[pyo3(signature = (sources, strict, on_rejects, at))]
    fn erase(
        &self,
        py: Python<'_>,
        sources: &Bound<'_, PyAny>,
        strict: bool,
        on_rejects: Py<PyAny>,
        at: Option<i64>,
    ) -> PyResult<(u64, u64, u64, u64, Vec<CheckpointTold>)> {
        let table = self.written(py)?;
        let (iterator, raised) = (sources.try_iter()?.unbind(), Raised::default());
        let mut rejects = PyRejects::new(on_rejects, raised.clone());
        let now = now();
        let at = at.map(SeenAt::from_millis).transpose().or_raise(py)?.unwrap_or(now);
        let erased = self.stoppable(py, table, |table, stop| {
            let mut source = PySource::new(iterator, raised.clone(), stop);
            let ingest = Ingest::new(strict, now, &mut rejects);
            let targets = ingest.targets(&mut source, at)?;
            let erased = self.measure(CallKind::Erase, || table.erase(&targets, at))?;
            let checkpoints = erased.checkpoints.into_iter().map(checkpoints::told).collect();
            let counts = (ingest.rows(), ingest.rejected(), erased.by_id, erased.by_partner_id);
            Ok((counts.0, counts.1, counts.2, counts.3, checkpoints))
        })?;
        finish(py, erased, &raised)
    }

    /// The answers for a key, newest first, as a pyarrow table.
    #[pyo3(signature = (by, key, since, until, limit))]
    fn answers<'py>(
        &self,
        py: Python<'py>,
        by: &str,
        key: &str,
        since: Option<i64>,
        until: Option<i64>,
        limit: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (reader, lookup) = (self.reader(py)?, lookup(py, by, since, until, limit)?);
        let find = |call: &Call| reader.open(call)?.lookup_many(&[key], lookup, call);
        let found = self.short(py, CallKind::Lookup, find)?;
        answers::into_pyarrow(py, lookup.by, found.or_raise(py)?)
    }

    /// The answers for each key, newest first, as lists of (value, milliseconds).
    #[pyo3(signature = (by, keys, since, until, limit))]
    fn lookup_many<'py>(
        &self,
        py: Python<'py>,
        by: &str,
        keys: Vec<PyBackedStr>,
        since: Option<i64>,
        until: Option<i64>,
        limit: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (reader, lookup) = (self.reader(py)?, lookup(py, by, since, until, limit)?);
        let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
        let find = |call: &Call| {
            self.measure(CallKind::Lookup, || reader.open(call)?.lookup_many(&keys, lookup, call))
        };
        let found = if keys.len() < SHORT_LOOKUP_KEYS && !self.context.is_remote {
            uninterrupted(py, || find(&Call::default()))?
        } else {
            interruptible(py, |watch| find(&watch.call()))?
        };
        answers::into_lists(&found.or_raise(py)?).into_bound_py_any(py)
    }

    /// The newest answer and its date.
    #[pyo3(signature = (by, key, since, until))]
    fn latest(
        &self,
        py: Python<'_>,
        by: &str,
        key: &str,
        since: Option<i64>,
        until: Option<i64>,
    ) -> PyResult<Option<(String, i64)>> {
        let (reader, lookup) = (self.reader(py)?, lookup(py, by, since, until, Some(1))?);
        let latest = |call: &Call| -> Result<Option<(String, i64)>> {
            let answers = reader.open(call)?.lookup_many(&[key], lookup, call)?;
            let first = answers.of(0).next();
            Ok(first.map(|(value, seen_at)| (value.to_owned(), seen_at.millis_i64())))
        };
        self.short(py, CallKind::Lookup, latest)?.or_raise(py)
    }

    /// The newest date of a pair.
    fn last_seen(&self, py: Python<'_>, id: &str, partner_id: &str) -> PyResult<Option<i64>> {
        let reader = self.reader(py)?;
        let find = |call: &Call| reader.open(call)?.last_seen(id, partner_id, call);
        let last = self.short(py, CallKind::LastSeen, find)?;
        Ok(last.or_raise(py)?.map(SeenAt::millis_i64))
    }

    /// The dates of a pair, newest first.
    fn history(&self, py: Python<'_>, id: &str, partner_id: &str) -> PyResult<Vec<i64>> {
        let reader = self.reader(py)?;
        let find = |call: &Call| reader.open(call)?.history(id, partner_id, call);
        let dates = self.short(py, CallKind::LastSeen, find)?;
        Ok(dates.or_raise(py)?.into_iter().map(SeenAt::millis_i64).collect())
    }

    /// Counts the observations by reading them: all, or only observations that another retention would hide.
    #[pyo3(signature = (hidden_by))]
    fn count(&self, py: Python<'_>, hidden_by: Option<&str>) -> PyResult<u64> {
        let reader = self.reader(py)?;
        let hidden_by = hidden_by.map(Period::parse).transpose().or_raise(py)?;
        let counted = |watch: &Watch| {
            let call = watch.call();
            count(&*reader.open(&call)?, hidden_by.as_ref(), &call)
        };
        interruptible(py, counted)?.or_raise(py)
    }

    /// Compacts the table.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        let table = self.written(py)?;
        let compact =
            |table: &idmatch_store::Table| self.measure(CallKind::Compact, || table.compact());
        self.stoppable(py, table, |table, _| compact(table))?.or_raise(py)
    }

    /// Checks the table; returns problems as (place, problem).
    fn verify(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let table = self.written(py)?;
        let verify =
            |table: &idmatch_store::Table| self.measure(CallKind::Verify, || table.verify());
        let findings = self.stoppable(py, table, |table, _| verify(table))?.or_raise(py)?;
        Ok(findings.into_iter().map(|finding| (finding.place, finding.problem)).collect())
    }

    /// Repairs the table; returns problems as (place, problem), and the most rows lost.
    fn repair(&self, py: Python<'_>, accept_loss: bool) -> PyResult<(Vec<(String, String)>, u64)> {
        let table = self.written(py)?;
        let repair = |table: &idmatch_store::Table| {
            self.measure(CallKind::Repair, || table.repair(accept_loss))
        };
        let repaired = self.stoppable(py, table, |table, _| repair(table))?.or_raise(py)?;
        let findings = repaired.findings.into_iter().map(|found| (found.place, found.problem));
        Ok((findings.collect(), repaired.lost_at_most))
    }

    /// Figures about the table.
    fn stats<'py>(&self, py: Python<'py>, counting: &str) -> PyResult<Stats<'py>> {
        let counting = answers::counting(counting);
        let reader = self.reader(py)?;
        let figures = |call: &Call| reader.open(call)?.stats(counting, call);
        // An exporter asks for the figures of thousands of tables: none of these calls is worth a thread.
        let stats = if counting == Counting::Metadata && !self.context.is_remote {
            uninterrupted(py, || figures(&Call::default()))?
        } else {
            interruptible(py, |watch| figures(&watch.call()))?
        };
        let stats = stats.or_raise(py)?;
        let [oldest, newest] = [stats.oldest, stats.newest].map(|at| at.map(SeenAt::millis_i64));
        Ok((answers::into_stats(py, &stats)?, oldest, newest))
    }
}
