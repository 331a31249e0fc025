//! The class `Session` of Python: rows that are staged first and committed once.

use crate::errors::{OrRaise, raise};
use crate::interrupt::{interruptible, uninterrupted};
use crate::process::{Own, attached};
use crate::raised::Raised;
use crate::sources::{GivenDates, PyRejects, PySource, date_rules, finish};
use crate::store_context::StoreContext;
use crate::tables::Table;
use idmatch_model::{SeenAt, TableId};
use idmatch_store::locks::Mutex;
use idmatch_store::{
    Call, CallKind, Error, Ingest, NewWrite, ObservationSource, Observations, Opened, PartReceipt,
    Result, Sharing, WriteKey, WriteKind, WriteSession, now,
};
use pyo3::prelude::*;
use std::sync::Arc;

/// Rows read and rejected, the newest date of the good rows, and the receipt of the part.
type Added = (u64, u64, Option<i64>, String);

/// A write session of a table.
#[pyclass(frozen, module = "idmatch._core")]
pub(crate) struct Session {
    session: Own<Mutex<Option<Arc<dyn WriteSession>>>>,
    parts: Mutex<Vec<PartReceipt>>,
    /// Counts the session as open until it is committed or aborted.
    opened: Mutex<Option<Opened>>,
    context: StoreContext,
}

/// Begins a session of a table. `sharing` says what other processes may write before its end: "locked"
/// nothing, "local" the store, "shared" also this session.
#[pyfunction]
pub(crate) fn begin(
    py: Python<'_>,
    table: &Table,
    replace: bool,
    key: Option<&str>,
    sources: Vec<String>,
    sharing: &str,
) -> PyResult<Session> {
    let (context, table) = (table.context().clone(), table.written(py)?);
    let key = key.map(WriteKey::new).transpose().or_raise(py)?;
    let sharing = match sharing {
        "locked" => Sharing::Locked,
        "shared" => Sharing::Shared,
        _ => Sharing::Local,
    };
    let kind = if replace { WriteKind::Replace } else { WriteKind::Add };
    let session = interruptible(py, |watch| {
        let write = NewWrite { table: TableId(0), kind, key, sources, sharing };
        table.with_call(context.call(watch)).begin(write)
    })?;
    Ok(Session::new(session.or_raise(py)?, context))
}

impl Session {
    pub(crate) fn new(session: Box<dyn WriteSession>, context: StoreContext) -> Session {
        let session = Own::new(Mutex::new(Some(session.into())));
        let opened = Mutex::new(Some(context.calls.opened_session()));
        Session { session, parts: Mutex::default(), opened, context }
    }

    fn ended(&self) {
        drop(self.opened.lock().take());
    }

    fn open(&self, py: Python<'_>) -> PyResult<Arc<dyn WriteSession>> {
        self.context.check_open(py)?;
        let session = self.session.get(py)?.lock();
        session.clone().ok_or_else(|| raise(py, &Error::session_ended()))
    }
}

#[pymethods]
impl Session {
    /// Rows written and rejected, once this session, or an earlier one with the same key, is committed.
    fn outcome(&self, py: Python<'_>) -> PyResult<Option<(u64, u64)>> {
        Ok(self.open(py)?.outcome().map(|outcome| (outcome.rows, outcome.rejected)))
    }

    /// The id by which other processes open it, if it is shared.
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.open(py)?.address().to_string())
    }

    /// Stages all sources as one part; returns (rows read, rows rejected, newest date, receipt). `malformed`
    /// returns the number of rows that were rejected before.
    #[allow(clippy::too_many_arguments, reason = "Python names them")]
    #[pyo3(signature = (sources, strict, on_rejects, dates, malformed, number))]
    fn add(
        &self,
        py: Python<'_>,
        sources: &Bound<'_, PyAny>,
        strict: bool,
        on_rejects: Py<PyAny>,
        dates: GivenDates,
        malformed: Py<PyAny>,
        number: Option<u32>,
    ) -> PyResult<Added> {
        let (session, dates) = (self.open(py)?, date_rules(dates).or_raise(py)?);
        let (iterator, raised) = (sources.try_iter()?.unbind(), Raised::default());
        let mut rejects = PyRejects::new(on_rejects, raised.clone());
        let staged = interruptible(py, |watch| {
            let call = watch.call();
            let mut source = PySource::new(iterator, raised.clone(), watch.stop());
            let ingest = Ingest::new(strict, now(), &mut rejects).with_dates(dates);
            let judged = ingest.judged(&mut source);
            let source = WithMalformed { judged, malformed };
            let stage = || session.stage(number, &source, &call);
            let part = self.context.calls.measure(CallKind::Stage, stage)?;
            Ok((part, ingest.rows(), ingest.rejected(), ingest.newest()))
        })?;
        let (part, rows, rejected, newest) = finish(py, staged, &raised)?;
        let mut parts = self.parts.lock();
        parts.push(part);
        Ok((rows, rejected, newest.map(SeenAt::millis_i64), part.to_string()))
    }

    /// The receipts of all parts of a shared session, wherever they were staged.
    fn staged(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let session = self.open(py)?;
        let parts = uninterrupted(py, || session.parts())?.or_raise(py)?;
        Ok(parts.iter().map(ToString::to_string).collect())
    }

    /// Commits the parts of these receipts, or the parts that were added here; returns (rows written, rows
    /// rejected).
    #[pyo3(signature = (receipts))]
    fn commit(&self, py: Python<'_>, receipts: Option<Vec<String>>) -> PyResult<(u64, u64)> {
        let session = self.open(py)?;
        let parts = match receipts {
            Some(texts) => {
                texts.iter().map(|text| text.parse()).collect::<Result<_>>().or_raise(py)?
            }
            None => self.parts.lock().clone(),
        };
        let commit = |call: Call| {
            self.context.calls.measure(CallKind::Commit, || session.commit(&parts, &call))
        };
        let done = interruptible(py, |watch| commit(self.context.call(watch)))?;
        let outcome = done.or_raise(py)?;
        self.ended();
        Ok((outcome.rows, outcome.rejected))
    }

    /// Ends the session without a commit.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.session.get(py)?.lock().take();
        self.ended();
        match session {
            // The end of a session may wait for another process, too.
            Some(session) => uninterrupted(py, move || session.abort())?.or_raise(py),
            None => Ok(()),
        }
    }
}

/// Judged rows of a source, some of which Python has rejected before.
struct WithMalformed<S> {
    judged: S,
    malformed: Py<PyAny>,
}

impl<S: ObservationSource> ObservationSource for WithMalformed<S> {
    fn next_batch(&self) -> Result<Option<Observations>> {
        self.judged.next_batch()
    }

    fn is_strict(&self) -> bool {
        self.judged.is_strict()
    }

    fn rejected(&self) -> u64 {
        let malformed = attached(|py| self.malformed.call0(py)?.extract::<u64>(py));
        // Only a count: no row depends on it.
        self.judged.rejected() + malformed.unwrap_or(0)
    }
}
