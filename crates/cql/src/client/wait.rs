//! Lets callers on their own threads wait for work on the client's threads.

use super::session::{Client, Use};
use idmatch_store::{Error, ErrorKind, Result};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How often a wait checks whether its caller has stopped it.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

impl Client {
    /// Waits for work. Must not be called from a task.
    pub(crate) fn wait<F: Future>(&self, work: F) -> F::Output {
        self.runtime_handle.block_on(work)
    }

    /// Waits for work that may fail, and gives it up if `stop` is set before it ends.
    ///
    /// # Errors
    /// `UnknownOutcome` for a write that is given up, `Source` for a read; otherwise the errors of the
    /// work.
    pub(crate) fn wait_unless<T>(
        &self,
        stop: Option<&AtomicBool>,
        used: Use,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(stop) = stop else { return self.wait(work) };
        self.wait(async {
            let mut work = pin!(work);
            while !stop.load(Relaxed) {
                if let Ok(done) = tokio::time::timeout(STOP_CHECK_INTERVAL, &mut work).await {
                    return done;
                }
            }
            Err(match used {
                Use::Read | Use::List | Use::Scan => Error::new(ErrorKind::Source, "interrupted"),
                Use::Write => Error::new(
                    ErrorKind::UnknownOutcome,
                    "interrupted: what was sent of it stays; repeat it",
                ),
            })
        })
    }

    /// Starts work that runs beside the caller.
    pub(crate) fn start<F>(&self, work: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.runtime_handle.spawn(work)
    }
}
