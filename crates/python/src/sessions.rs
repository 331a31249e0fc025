//! The class `Session` of Python: rows that are staged first and committed once.

use crate::errors::{OrRaise, raise};
use crate::interrupt::{interruptible, uninterrupted};
use crate::place::Place;
use crate::sources::{GivenDates, PyRejects, PySource, Raised, date_rules, finish};
use crate::tables::Table;
use idmatch_model::TableId;
use idmatch_store::{
    Call, Error, Ingest, NewWrite, PartReceipt, WriteKey, WriteKind, WriteSession, now,
};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// A write session of a table.
#[pyclass(frozen, module = "idmatch._core")]
pub(crate) struct Session {
    session: Mutex<Option<Arc<dyn WriteSession>>>,
    parts: Mutex<Vec<PartReceipt>>,
    place: Place,
}

/// Begins a session of a table. With `keeps_lock` other processes cannot write before its end.
#[pyfunction]
pub(crate) fn begin(
    py: Python<'_>,
    table: &Table,
    replace: bool,
    key: Option<&str>,
    sources: Vec<String>,
    keeps_lock: bool,
) -> PyResult<Session> {
    let (place, table) = (table.place().clone(), table.written(py)?);
    let key = key.map(WriteKey::new).transpose().or_raise(py)?;
    let kind = if replace { WriteKind::Replace } else { WriteKind::Add };
    let session = interruptible(py, |watch| {
        let write = NewWrite { table: TableId(0), kind, key, sources, keeps_lock };
        table.with_call(place.call(watch)).begin(write)
    })?;
    let session = Mutex::new(Some(session.or_raise(py)?.into()));
    Ok(Session { session, parts: Mutex::default(), place })
}

impl Session {
    fn open(&self, py: Python<'_>) -> PyResult<Arc<dyn WriteSession>> {
        self.place.check_open(py)?;
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        session.ok_or_else(|| raise(py, &Error::session_ended()))
    }
}

#[pymethods]
impl Session {
    /// Rows written and rejected, once it is committed or if its key was before.
    fn outcome(&self, py: Python<'_>) -> PyResult<Option<(u64, u64)>> {
        Ok(self.open(py)?.outcome().map(|outcome| (outcome.rows, outcome.rejected)))
    }

    /// Stages all sources as one part; returns (rows read, rows rejected).
    fn add(
        &self,
        py: Python<'_>,
        sources: &Bound<'_, PyAny>,
        strict: bool,
        on_rejects: Py<PyAny>,
        dates: GivenDates,
    ) -> PyResult<(u64, u64)> {
        let (session, dates) = (self.open(py)?, date_rules(dates).or_raise(py)?);
        let (iterator, raised) = (sources.try_iter()?.unbind(), Raised::default());
        let mut rejects = PyRejects::new(on_rejects, raised.clone());
        let staged = interruptible(py, |watch| {
            let call = watch.call();
            let mut source = PySource::new(iterator, raised.clone(), watch.stop());
            let ingest = Ingest::new(strict, now(), &mut rejects).with_dates(dates);
            let part = session.stage(&ingest.judged(&mut source), &call)?;
            Ok((part, ingest.rows(), ingest.rejected()))
        })?;
        let (part, rows, rejected) = finish(py, staged, &raised)?;
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.push(PartReceipt { rejected, ..part });
        Ok((rows, rejected))
    }

    /// Commits all parts; returns (rows written, rows rejected). `rejected` were rejected before any part.
    fn commit(&self, py: Python<'_>, rejected: u64) -> PyResult<(u64, u64)> {
        let session = self.open(py)?;
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(part) = parts.first_mut() {
            part.rejected += rejected;
        }
        let commit = |call: Call| session.commit(&parts, &call);
        let done = interruptible(py, |watch| commit(self.place.call(watch)))?;
        let outcome = done.or_raise(py)?;
        Ok((outcome.rows, outcome.rejected))
    }

    /// Ends it without a commit.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        match session {
            Some(session) => uninterrupted(py, || session.abort())?.or_raise(py),
            None => Ok(()),
        }
    }
}
