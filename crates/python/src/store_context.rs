//! The state that a Python store shares with its tables, sessions and snapshots: address, whether it is
//! closed, writer wait, metrics of calls. The tables of a snapshot share the slot that holds it until it is
//! closed.
//!
//! Must not know the requests of callers. Invariant: after the store was closed, `check_open` refuses every
//! use; after the snapshot was closed, so does `open`.

use crate::errors::closed;
use crate::interrupt::Watch;
use idmatch_model::TableId;
use idmatch_store::locks::RwLock;
use idmatch_store::{Call, Calls, Error, ErrorKind, Result};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The state of a store that its tables and snapshots share.
#[derive(Clone)]
pub(crate) struct StoreContext {
    pub(crate) path: String,
    /// Whether the store is closed.
    pub(crate) is_closed: Arc<AtomicBool>,
    /// Whether each call may wait for servers.
    pub(crate) is_remote: bool,
    /// How long a write waits while another process writes the store.
    pub(crate) writer_wait: Duration,
    /// Whether Python shows progress; `None` where that depends on where Python runs.
    pub(crate) progress: Option<bool>,
    /// Measures calls.
    pub(crate) calls: Arc<Calls>,
}

impl StoreContext {
    pub(crate) fn new(path: String, is_remote: bool, writer_wait: Duration) -> StoreContext {
        let (is_closed, calls) = (Arc::default(), Arc::default());
        StoreContext { path, is_closed, is_remote, writer_wait, progress: None, calls }
    }

    /// The same, which shows progress or not.
    pub(crate) fn showing(self, progress: Option<bool>) -> StoreContext {
        StoreContext { progress, ..self }
    }

    /// A call that Ctrl-C can stop.
    pub(crate) fn call(&self, watch: &Watch) -> Call {
        watch.call().waiting_for_writer(self.writer_wait)
    }

    /// Raises InvalidArgument after the store was closed.
    pub(crate) fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_closed.load(Relaxed) { Err(closed(py, &self.path)) } else { Ok(()) }
    }
}

/// A snapshot until it is closed, shared with its tables.
pub(crate) type Slot = Arc<RwLock<Option<Arc<dyn idmatch_store::Snapshot>>>>;

/// A table of a snapshot.
pub(crate) struct Frozen {
    pub(crate) slot: Slot,
    pub(crate) id: TableId,
}

/// The snapshot of a slot; InvalidArgument after it was closed.
pub(crate) fn open(slot: &Slot) -> Result<Arc<dyn idmatch_store::Snapshot>> {
    let open = slot.read().clone();
    let closed = "the snapshot is closed; take another one with store.snapshot()";
    open.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, closed))
}
