//! Values of one process, and the behaviour of threads when Python ends.
//!
//! A process that was forked has its parent's objects, but neither its threads nor the right to wait for its
//! locks: it gets an error at once. When Python ends, daemon threads may not return to it: they stop where
//! they are. Must not know stores.

use crate::errors::raise;
use crate::forks::Process;
use pyo3::prelude::*;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// A value of the process that has made it. It is dropped without the GIL, since its end may wait for the
/// disk or for another process. A drop in a fork does nothing: it would need locks and threads of the parent.
pub(crate) struct Own<T: ?Sized + Send + Sync> {
    value: ManuallyDrop<Arc<T>>,
    process: Process,
}

impl<T: Send + Sync> Own<T> {
    /// A value of this process.
    pub(crate) fn new(value: T) -> Own<T> {
        Own::of(Arc::new(value))
    }
}

impl<T: ?Sized + Send + Sync> Own<T> {
    /// A shared value as a value of this process.
    pub(crate) fn of(value: Arc<T>) -> Own<T> {
        Own { value: ManuallyDrop::new(value), process: Process::this() }
    }

    /// The value; InvalidArgument in a fork.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&Arc<T>> {
        self.process.check().map_err(|e| raise(py, &e))?;
        Ok(&self.value)
    }

    /// The value, unless this is a fork.
    pub(crate) fn here(&self) -> Option<&Arc<T>> {
        self.process.is_this().then_some(&*self.value)
    }
}

impl<T: ?Sized + Send + Sync> Drop for Own<T> {
    fn drop(&mut self) {
        if !self.process.is_this() {
            return;
        }
        #[allow(unsafe_code, reason = "nobody uses it after its drop")]
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        if Arc::strong_count(&value) == 1 {
            // If Python has ended already, the value is dropped with the closure.
            Python::try_attach(move |py| detached(py, move || drop(value)));
        }
    }
}

/// The thread that ends Python, once one does.
static ENDING: OnceLock<ThreadId> = OnceLock::new();

/// Threads that are about to take the GIL, or run Python code for one of our calls.
static RETURNING: AtomicUsize = AtomicUsize::new(0);

/// The longest time that the end of Python waits for these threads. Python code of a caller may wait for
/// ever, and a busy machine may take seconds to run a thread that only has to return.
const LONGEST_END: Duration = Duration::from_secs(10);

thread_local! {
    /// The number of calls of this thread that are counted.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Counts this thread while it lives.
struct Returning;

impl Returning {
    /// Counts this thread. Python ends any thread that waits for the GIL after its end has begun, in the
    /// middle of our code. So no thread begins to wait from then on, unless the end waits for it.
    fn begin() -> Returning {
        RETURNING.fetch_add(1, SeqCst);
        let outermost = DEPTH.replace(DEPTH.get() + 1) == 0;
        if outermost && ENDING.get().is_some_and(|ending| *ending != std::thread::current().id()) {
            RETURNING.fetch_sub(1, SeqCst);
            loop {
                std::thread::park();
            }
        }
        Returning
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        RETURNING.fetch_sub(1, SeqCst);
    }
}

/// Runs work without the GIL.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let (done, _returning) = py.detach(|| {
        let done = work();
        (done, Returning::begin())
    });
    done
}

/// Runs work with the GIL, on a thread of ours.
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    let _returning = Returning::begin();
    Python::attach(work)
}

/// Runs code of another library that may take the GIL, on a thread without the GIL.
pub(crate) fn foreign<T>(work: impl FnOnce() -> T) -> T {
    let _returning = Returning::begin();
    work()
}

/// Forgets the threads of a parent: Python calls it in a fork.
#[pyfunction]
pub(crate) fn begin_fork() {
    RETURNING.store(DEPTH.get(), SeqCst);
}

/// Notes that Python ends. Waits for the threads that are about to take the GIL or run Python code for us; at
/// most ten seconds, since that code may wait for ever. Python calls it at its exit, when only daemon threads
/// are left beside this one.
#[pyfunction]
pub(crate) fn end(py: Python<'_>) {
    ENDING.set(std::thread::current().id()).ok();
    let began = Instant::now();
    while RETURNING.load(SeqCst) > 0 && began.elapsed() < LONGEST_END {
        py.detach(|| std::thread::sleep(Duration::from_millis(1)));
    }
}
