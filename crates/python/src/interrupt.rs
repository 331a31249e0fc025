//! Work without the GIL: long work that Ctrl-C can stop and whose progress is told. Panics in it become errors.

use crate::errors::{OrRaise, raise};
use crate::panics::caught;
use crate::process::{attached, detached};
use crate::progress::{self, Reports};
use crate::raised::Raised;
use arrow_array::RecordBatch;
use idmatch_store::locks::Mutex;
use idmatch_store::{
    Call, Error, ErrorFields, ErrorKind, MatchLane, MatchSink, Result, Table, Unit,
};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::{Builder, current, scope};
use std::time::{Duration, Instant};

/// The time between two checks for Python's signals, and between two reports of progress.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The connection of long work to the thread that waits for it.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    reports: Option<Arc<Reports>>,
}

impl Watch {
    /// The flag that is set when the work should end.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// A call that ends when the work should, and whose progress is told.
    pub(crate) fn call(&self) -> Call {
        let call = Call::default().cancelled_by(&self.stop);
        match &self.reports {
            Some(reports) => call.reporting(reports.sink()),
            None => call,
        }
    }
}

/// Runs `work` on another thread without the GIL, while this thread checks for signals and tells the progress
/// to the callable of [`progress::report_to`]. After Ctrl-C, or an exception of the callable, `work` should
/// end soon, and its result is dropped. After a write to servers, the exception has a note about rows whose
/// outcome is unknown.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Watch) -> Result<T> + Send,
) -> PyResult<Result<T>> {
    let teller = progress::teller(py);
    let reports = teller.as_ref().map(|_| Arc::default());
    let watch = Watch { stop: Arc::default(), reports };
    let tell = || match (&teller, &watch.reports) {
        (Some(teller), Some(reports)) => reports.tell(teller.bind(py)),
        _ => Ok(()),
    };
    scope(|scope| {
        let watch = &watch;
        let (sender, receiver) = sync_channel(1);
        let run = move || sender.send(caught(|| work(watch))).ok();
        Builder::new().name("idmatch".into()).spawn_scoped(scope, run).map_err(|e| {
            let text = "cannot start a thread; free threads or memory, and try again";
            raise(py, &Error::with_source(ErrorKind::Io, text, e))
        })?;
        // `detached` takes only values that threads can share.
        let receiver = Mutex::new(receiver);
        let mut interrupt = Ok(());
        loop {
            let waited = detached(py, || receiver.lock().recv_timeout(SIGNAL_CHECK_INTERVAL));
            match waited {
                Ok(Ok(done)) => {
                    return match interrupt.and_then(|()| tell()) {
                        Ok(()) => Ok(done),
                        Err(exception) => Err(noted(py, exception, done.err())),
                    };
                }
                Ok(Err(panic)) => return Err(raise(py, &panic)),
                // The thread sends before it ends.
                Err(RecvTimeoutError::Disconnected) => {
                    let text = "a thread of idmatch ended without an answer; try again";
                    return Err(raise(py, &Error::new(ErrorKind::Internal, text)));
                }
                Err(RecvTimeoutError::Timeout) if interrupt.is_ok() => {
                    interrupt = py.check_signals().and_then(|()| tell());
                    watch.stop.store(interrupt.is_err(), Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    })
}

/// Adds a note to the exception that has ended a write, if the outcome of the write is unknown.
fn noted(py: Python<'_>, exception: PyErr, error: Option<Error>) -> PyErr {
    let unknown = error.as_ref().filter(|error| error.kind() == ErrorKind::UnknownOutcome);
    if let Some(error) = unknown {
        let note = match error.fields() {
            Some(ErrorFields::UnknownOutcome { rows }) => format!(
                "{} rows may be written or not: what was sent stays; repeat it, which is always safe",
                rows.len()
            ),
            _ => error.to_string(),
        };
        // Without the note the exception is the same.
        exception.value(py).call_method1("add_note", (note,)).ok();
    }
    exception
}

/// Runs short `work` on this thread without the GIL.
pub(crate) fn uninterrupted<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    detached(py, || caught(work)).or_raise(py)
}

/// Runs a short call on this thread without the GIL. If it may wait, such as for servers, Ctrl-C still ends it: a
/// thread for each call would cost more than the call. After a write to servers, the exception has the note that
/// [`interruptible`] adds.
pub(crate) fn short<T: Send>(
    py: Python<'_>,
    may_wait: bool,
    work: impl FnOnce(&Call) -> Result<T> + Send,
) -> PyResult<Result<T>> {
    if !may_wait {
        return uninterrupted(py, || work(&Call::default()));
    }
    let (here, raised) = (current().id(), Raised::default());
    let (kept, checked) = (raised.clone(), Mutex::new(Instant::now()));
    let is_ended = move || {
        // Tasks of the client, which check too, must not wait for Python.
        if current().id() != here {
            return false;
        }
        let mut checked = checked.lock();
        if checked.elapsed() < SIGNAL_CHECK_INTERVAL {
            return false;
        }
        *checked = Instant::now();
        attached(|py| py.check_signals()).map_err(|exception| kept.keep(exception)).is_err()
    };
    let done = uninterrupted(py, || work(&Call::default().ended_by(Arc::new(is_ended))))?;
    match raised.take() {
        None => Ok(done),
        Some(exception) => Err(noted(py, exception, done.err())),
    }
}

/// Runs a short write as [`short`] does: it may wait for compactions.
pub(crate) fn short_write<T: Send>(
    py: Python<'_>,
    table: &Table,
    write: impl FnOnce(&Table) -> Result<T> + Send,
) -> PyResult<Result<T>> {
    short(py, true, |call| write(&table.with_call(call.clone())))
}

/// Fails when `stop` is set, which ends the work; its result is dropped.
pub(crate) fn not_stopped(stop: &AtomicBool) -> Result<()> {
    if stop.load(Relaxed) {
        return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
    }
    Ok(())
}

/// A sink that takes nothing more once its call should end, reports rows as written and counts them.
pub(crate) struct StoppingSink<'a> {
    pub(crate) sink: &'a dyn MatchSink,
    pub(crate) call: &'a Call,
    pub(crate) rows: AtomicU64,
}

struct StoppingLane<'a> {
    lane: Box<dyn MatchLane + 'a>,
    call: &'a Call,
    rows: &'a AtomicU64,
}

impl MatchSink for StoppingSink<'_> {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        Ok(Box::new(StoppingLane { lane: self.sink.lane()?, call: self.call, rows: &self.rows }))
    }
}

impl MatchLane for StoppingLane<'_> {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let rows = batch.num_rows() as u64;
        self.call.report("write", rows, Unit::Rows)?;
        self.rows.fetch_add(rows, Relaxed);
        self.lane.push(batch)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.lane.finish()
    }
}
