//! Copies tombstones from one table to another.
//!
//! Tombstones are hashes keyed with a secret of their store, so only a store with the same secret can use
//! them. A store without a secret takes the secret of the source. Must not know rows.

use crate::{Call, Erasures, Error, ErrorKind, Result, Store, Table, admin};
use idmatch_model::SeenAt;
use std::collections::HashMap;

/// Copies the tombstones of a table to a store, as often as needed.
pub(super) struct TombstoneCopy<'a> {
    source: &'a Table,
    destination: &'a dyn Store,
    accept_loss: bool,
    call: &'a Call,
}

/// The tombstones of the source, and whether the destination can use them.
pub(super) struct SourceTombstones {
    pub(super) erasures: Erasures,
    pub(super) is_usable: bool,
}

impl SourceTombstones {
    /// The tombstones that are new or later than in an earlier copy of tombstones.
    pub(super) fn since(&self, before: &SourceTombstones) -> HashMap<u128, SeenAt> {
        let known: HashMap<u128, SeenAt> = before.erasures.hashes.iter().copied().collect();
        let is_new = |(hash, at): &(u128, SeenAt)| known.get(hash).is_none_or(|then| then < at);
        self.erasures.hashes.iter().copied().filter(is_new).collect()
    }
}

impl<'a> TombstoneCopy<'a> {
    pub(super) fn new(
        source: &'a Table,
        destination: &'a dyn Store,
        accept_loss: bool,
        call: &'a Call,
    ) -> TombstoneCopy<'a> {
        TombstoneCopy { source, destination, accept_loss, call }
    }

    /// Gives the destination the secret, if it has none. Must come before the table is created: on servers
    /// the first table fixes the secret of a store.
    pub(super) fn begin(&self) -> Result<SourceTombstones> {
        let erasures = self.source.erasures()?;
        let is_usable = match erasures.key {
            Some(key) => admin(self.destination)?.adopt_erasure_key(key, self.call)? == key,
            None => true,
        };
        let count = erasures.hashes.len();
        if is_usable || count == 0 || self.accept_loss {
            return Ok(SourceTombstones { erasures, is_usable: is_usable || count == 0 });
        }
        Err(Error::new(
            ErrorKind::Differs,
            format!(
                "table {} has {count} erasures, and the destination cannot take them over: they are \
                 remembered as hashes with a secret of their store, and it has another one. Rows that \
                 were erased would show there when they arrive late. Copy to a new store, or accept \
                 that the erasures are lost",
                self.source.name()
            ),
        ))
    }

    /// Adds the tombstones to the copy.
    pub(super) fn finish(&self, target: &Table, taken: &SourceTombstones) -> Result<()> {
        match taken.is_usable && !taken.erasures.hashes.is_empty() {
            true => target.add_erasures(&taken.erasures),
            false => Ok(()),
        }
    }
}
