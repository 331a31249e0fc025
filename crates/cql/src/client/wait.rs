//! Lets callers on their own threads wait for work on the client's threads.

use super::session::{Client, Use};
use idmatch_store::{Call, Error, ErrorKind, Result};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

/// How often a wait checks whether its call is to end.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

impl Client {
    /// Waits for work. Must not be called from a task.
    pub(crate) fn wait<F: Future>(&self, work: F) -> F::Output {
        self.runtime_handle.block_on(work)
    }

    /// Waits for work that may fail, and gives it up soon after its call is to end.
    ///
    /// # Errors
    /// `UnknownOutcome` for a write that is given up, `Cancelled` for a read; otherwise the errors of the
    /// work.
    pub(crate) fn wait_unless<T>(
        &self,
        call: &Call,
        used: Use,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let waiting = async {
            if !call.may_end_early() {
                return work.await;
            }
            let mut work = pin!(work);
            loop {
                match tokio::time::timeout(CHECK_INTERVAL, &mut work).await {
                    Ok(done) => return done,
                    Err(_) => call.check()?,
                }
            }
        };
        self.wait(waiting).map_err(|e| match (e.kind(), used) {
            // The work may have noticed the end of the call first.
            (ErrorKind::Cancelled, Use::Write) => Error::with_source(
                ErrorKind::UnknownOutcome,
                "interrupted: what was sent of it stays; repeat it",
                e,
            ),
            _ => e,
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
