//! Long work that Ctrl-C can stop.

use idmatch_store::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often Python's signals are looked at.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs `work` on another thread without the GIL, while this one waits for signals. After
/// Ctrl-C the flag that `work` gets is set; it should end soon, and its result is dropped.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Arc<AtomicBool>) -> T + Send,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let stop = &stop;
        let (sender, receiver) = sync_channel(1);
        scope.spawn(move || sender.send(work(stop)));
        // Only what may be shared can be used without the GIL.
        let receiver = Mutex::new(receiver);
        let mut interrupt = Ok(());
        loop {
            let waited = py.detach(|| match receiver.lock() {
                Ok(receiver) => receiver.recv_timeout(PAUSE),
                Err(_) => Err(RecvTimeoutError::Disconnected),
            });
            match waited {
                Ok(done) => return interrupt.map(|()| done),
                Err(RecvTimeoutError::Timeout) if interrupt.is_ok() => {
                    interrupt = py.check_signals();
                    stop.store(interrupt.is_err(), Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The worker panicked; the scope passes that on.
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

/// An error that ends the work, whose result nobody will see.
pub(crate) fn not_stopped(stop: &AtomicBool) -> Result<()> {
    if stop.load(Relaxed) {
        return Err(Error::new(ErrorKind::Source, "interrupted"));
    }
    Ok(())
}
