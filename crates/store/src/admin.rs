//! The maintenance of a store, which only its owner does. Synchronous; a [`Call`] ends it early.

use crate::{Call, Checkpoint, Erasures, Error, ErrorFields, ErrorKind, Finding, Repaired, Result};
use idmatch_model::{ErasureKey, TableId};
use std::path::Path;
use std::time::Duration;

/// The operations that the owner of a store starts by hand. A store may have no `Admin`.
pub trait Admin: Send + Sync {
    /// Rewrites the table's rows without expired and erased rows, where that makes them fewer or faster to
    /// read. Answers stay the same. Readers go on meanwhile.
    fn compact(&self, table: TableId, call: &Call) -> Result<()>;

    /// Reads all of a table and checks it. A fault of the table is a finding; an error means that the check
    /// itself could not be done.
    fn verify(&self, table: TableId, call: &Call) -> Result<Vec<Finding>>;

    /// Checks the table and repairs each direction from the other. Where both are damaged, rows would be
    /// lost: then nothing changes (`Corrupt`), unless the loss is accepted.
    fn repair(&self, table: TableId, accept_loss: bool, call: &Call) -> Result<Repaired>;

    /// Copies one version of the whole store to a new place.
    fn backup(&self, destination: &Path, call: &Call) -> Result<()>;

    /// Makes one version of the whole store readable for other processes, as a store that refuses writes for
    /// good. It is read at this reading of the clock, and also shows rows that are erased later. Without a
    /// destination it is in the folder of the store, and the next writer removes it after `keep`; a
    /// checkpoint of the same version is returned again.
    ///
    /// # Errors
    /// `InvalidArgument` unless `keep` is a minute to 7 days, and for a destination that is taken; `Io` where files
    /// cannot be linked; `Unsupported` where stores have no versions.
    fn checkpoint(
        &self,
        _destination: Option<&Path>,
        _keep: Duration,
        _call: &Call,
    ) -> Result<Checkpoint> {
        let instead = "the store itself; rows are read as they are".to_owned();
        Err(Error::new(
            ErrorKind::Unsupported,
            "a store on servers has no versions, so no checkpoints; read the store itself",
        )
        .with_fields(ErrorFields::Unsupported { instead }))
    }

    /// Removes a checkpoint of this store. It is no error if the checkpoint is already gone.
    ///
    /// # Errors
    /// `InvalidArgument` for a folder that is no checkpoint.
    fn remove_checkpoint(&self, path: &Path, _call: &Call) -> Result<()> {
        let text = format!("{} is no checkpoint of this store", path.display());
        Err(Error::new(ErrorKind::InvalidArgument, text))
    }

    /// The tombstones of a table. They have no identifiers, but hashes that hide identifiers, even when these
    /// arrive late.
    fn export_tombstones(&self, table: TableId, call: &Call) -> Result<Erasures>;

    /// Adds tombstones of another table, as if the same had been erased here at the same dates. All or
    /// nothing, and safe to repeat.
    ///
    /// # Errors
    /// `Differs` for tombstones that are hashed with another secret than this store's.
    fn import_tombstones(&self, table: TableId, erasures: &Erasures, call: &Call) -> Result<()>;

    /// Gives a store without a secret for tombstones this one. Returns the secret that the store uses from
    /// now on: its own where it already has one.
    fn adopt_erasure_key(&self, key: ErasureKey, call: &Call) -> Result<ErasureKey>;
}
