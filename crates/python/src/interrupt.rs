//! Long work that Ctrl-C can stop.

use idmatch_store::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The time between two checks for Python's signals.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Runs `work` on another thread without the GIL, while this thread checks for signals. Ctrl-C
/// sets the flag that `work` gets: `work` should then end soon, and its result is dropped.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Arc<AtomicBool>) -> T + Send,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let stop = &stop;
        let (sender, receiver) = sync_channel(1);
        scope.spawn(move || sender.send(work(stop)));
        // `detach` takes only values that threads can share.
        let receiver = Mutex::new(receiver);
        let mut interrupt = Ok(());
        loop {
            let waited = py.detach(|| match receiver.lock() {
                Ok(receiver) => receiver.recv_timeout(SIGNAL_CHECK_INTERVAL),
                Err(_) => Err(RecvTimeoutError::Disconnected),
            });
            match waited {
                Ok(done) => return interrupt.map(|()| done),
                Err(RecvTimeoutError::Timeout) if interrupt.is_ok() => {
                    interrupt = py.check_signals();
                    stop.store(interrupt.is_err(), Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The worker panicked; the scope propagates the panic.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(pyo3::exceptions::PyRuntimeError::new_err("the work ended early"));
                }
            }
        }
    })
}

/// Runs short `work` on this thread without the GIL.
pub(crate) fn uninterrupted<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> T {
    py.detach(|| work(&AtomicBool::new(false)))
}

/// Fails when `stop` is set, which ends the work; its result is dropped.
pub(crate) fn not_stopped(stop: &AtomicBool) -> Result<()> {
    if stop.load(Relaxed) {
        return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
    }
    Ok(())
}
