//! The threads that the driver works in.

use idmatch_store::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Runtime};

/// The client's own threads.
pub(super) fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads())
        .thread_name("idmatch-cql")
        .enable_all()
        .build()
        .map_err(|e| Error::with_source(ErrorKind::Io, "cannot start threads", e))
}

/// Threads that wait for the servers: half as many as there are processors. The caller's is another one,
/// and on two processors a second one made lookups wait: it is woken as well, and finds nothing to do.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().div_ceil(2))
}
