//! Checkpoints as Python gets them.

use crate::errors::OrRaise;
use crate::interrupt::uninterrupted;
use idmatch_store::{Call, Checkpoint, Store};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Its path, the time at which it was made, the end of its life (milliseconds since 1970), and the bytes that
/// only it has.
pub(crate) type CheckpointTold = (PathBuf, u64, u64, u64);

pub(crate) fn told(Checkpoint { path, at, until, bytes }: Checkpoint) -> CheckpointTold {
    (path, at.millis(), until.millis(), bytes)
}

/// The checkpoints in the folder of a store, oldest first.
pub(crate) fn list(py: Python<'_>, store: &dyn Store) -> PyResult<Vec<CheckpointTold>> {
    let found = uninterrupted(py, || store.checkpoints(&Call::default()))?.or_raise(py)?;
    Ok(found.into_iter().map(told).collect())
}
