//! Progress of long work: worker threads add it up, and the thread that waits for them tells a Python callable.
//!
//! Must not know the work. Invariant: the callable runs on the thread that made the call, never on a worker.

use idmatch_store::locks::Mutex;
use idmatch_store::{Progress, ProgressSink, Unit};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static TELLER: RefCell<Option<Py<PyAny>>> = const { RefCell::new(None) };
}

/// Sets the callable to which long calls of this thread tell their progress; returns the former callable.
#[pyfunction]
#[pyo3(signature = (callable))]
pub(crate) fn report_to(callable: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
    TELLER.with(|teller| teller.replace(callable))
}

/// The callable of this thread.
pub(crate) fn teller(py: Python<'_>) -> Option<Py<PyAny>> {
    TELLER.with(|teller| teller.borrow().as_ref().map(|callable| callable.clone_ref(py)))
}

/// The work of each stage that was not told yet, in the order in which stages began.
#[derive(Default)]
pub(crate) struct Reports(Mutex<Vec<Progress>>);

impl Reports {
    /// Adds up reported work, from any thread.
    pub(crate) fn sink(self: &Arc<Self>) -> ProgressSink {
        let reports = Arc::clone(self);
        Arc::new(move |progress| reports.add(progress))
    }

    fn add(&self, progress: Progress) {
        let mut waiting = self.0.lock();
        let same =
            waiting.iter_mut().find(|w| (w.stage, w.unit) == (progress.stage, progress.unit));
        match same {
            Some(waiting) => waiting.done += progress.done,
            None => waiting.push(progress),
        }
    }

    /// Tells the callable of each stage: its name, the work done since the last time, and the unit.
    pub(crate) fn tell(&self, callable: &Bound<'_, PyAny>) -> PyResult<()> {
        let waiting = std::mem::take(&mut *self.0.lock());
        for Progress { stage, done, unit } in waiting {
            let unit = match unit {
                Unit::Bytes => "bytes",
                Unit::Rows => "rows",
            };
            callable.call1((stage, done, unit))?;
        }
        Ok(())
    }
}
