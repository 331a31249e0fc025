//! The threads of the driver.

use idmatch_store::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Runtime};

/// Starts the client's own threads.
pub(super) fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads())
        .thread_name("idmatch-cql")
        .enable_all()
        .build()
        .map_err(|e| Error::with_source(ErrorKind::Io, "cannot start threads", e))
}

/// Threads that wait for the servers: half as many as processors, rounded up. The thread of the caller is one
/// more. On two processors a second thread made lookups wait: it wakes as well, and finds nothing to do.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().div_ceil(2))
}
