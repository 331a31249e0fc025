//! What remembers erasures, on its way from one table to another.
//!
//! It is hashes with a secret of their store, so that only a store with the same secret can use them. One
//! that has none yet takes the source's. Must not know rows.

use crate::{Erasures, Error, ErrorKind, Result, Store, Table};
use idmatch_model::SeenAt;
use std::collections::HashMap;

/// Takes erasures over from a table to a store, as often as is needed.
pub(super) struct TakeOver<'a> {
    source: &'a dyn Table,
    destination: &'a dyn Store,
    accept_loss: bool,
}

/// What the source remembers, and whether the destination can.
pub(super) struct Taken {
    pub(super) erasures: Erasures,
    pub(super) is_taken: bool,
}

impl Taken {
    /// What was erased since another taking over.
    pub(super) fn since(&self, before: &Taken) -> HashMap<u128, SeenAt> {
        let known: HashMap<u128, SeenAt> = before.erasures.hashes.iter().copied().collect();
        let is_new = |(hash, at): &(u128, SeenAt)| known.get(hash).is_none_or(|then| then < at);
        self.erasures.hashes.iter().copied().filter(is_new).collect()
    }
}

impl<'a> TakeOver<'a> {
    pub(super) fn new(
        source: &'a dyn Table,
        destination: &'a dyn Store,
        accept_loss: bool,
    ) -> TakeOver<'a> {
        TakeOver { source, destination, accept_loss }
    }

    /// Gives the destination the secret, if it can have it. Before its table is made: on
    /// servers a store has its secret from then on.
    pub(super) fn begin(&self) -> Result<Taken> {
        let erasures = self.source.erasures()?;
        let is_taken = match erasures.key {
            Some(key) => self.destination.adopt_erasure_key(key)? == key,
            None => true,
        };
        let count = erasures.hashes.len();
        if is_taken || count == 0 || self.accept_loss {
            return Ok(Taken { erasures, is_taken: is_taken || count == 0 });
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

    /// Hides in the copy what is hidden in the source.
    pub(super) fn finish(&self, target: &dyn Table, taken: &Taken) -> Result<()> {
        match taken.is_taken && !taken.erasures.hashes.is_empty() {
            true => target.add_erasures(&taken.erasures),
            false => Ok(()),
        }
    }
}
