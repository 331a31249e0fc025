//! Panics of this library become errors. Must not know Python.

use idmatch_store::locks::Mutex;
use idmatch_store::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use tracing::error;

/// The place of the last panic on any thread: file and line. It is kept for all threads, because work goes on
/// to others. The text of a panic may have identifiers, so it is not kept.
static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Makes panics note and log their place, and print nothing. Some are in background work, which no thread
/// joins.
pub(crate) fn note_panics() {
    set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!("{}:{}", place.file(), place.line()));
        LAST_PANIC.lock().clone_from(&place);
        let place = place.unwrap_or_default();
        // The targets are the crates that have loggers. A task on servers runs the code of the driver, too.
        if place.contains("cql") || place.contains("scylla") {
            error!(target: "idmatch_cql", place, "a panic");
        } else {
            error!(target: "idmatch_engine", place, "a panic");
        }
    }));
}

/// Runs work. A panic in it, or on a thread of it that is joined, is an error with its file and line.
///
/// # Errors
/// `Internal`.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let place = LAST_PANIC.lock().take();
        let place = place.unwrap_or_else(|| "an unknown place".to_owned());
        Error::new(
            ErrorKind::Internal,
            format!(
                "idmatch {} failed at {place}; what was acknowledged is stored; check the store with idmatch \
                 verify, and report this with what was done",
                env!("CARGO_PKG_VERSION")
            ),
        )
    })
}
