//! The tombstones of a table that this process knows: keyed hashes of what was erased, each with a
//! date. The servers' own tombstones have nothing to do with them.
//!
//! `write::erase` publishes them in the table's log, and `metadata_cache` reads them from there. Every
//! read asks `TableMetadata::shows` for each row. They are in memory: about 40 bytes each.

use idmatch_model::{ErasureKey, SeenAt, Side, Target};
use std::collections::HashMap;

/// Tombstones by the keyed hash of their target.
#[derive(Debug, Clone)]
pub(crate) struct TombstoneMap {
    key: ErasureKey,
    at: HashMap<u128, SeenAt>,
    /// The latest date of all tombstones.
    newest: SeenAt,
}

impl TombstoneMap {
    pub(crate) fn new(key: ErasureKey) -> TombstoneMap {
        TombstoneMap { key, at: HashMap::new(), newest: SeenAt::EPOCH }
    }

    /// The key of the hashes.
    pub(crate) fn key(&self) -> ErasureKey {
        self.key
    }

    /// Each hash, and the date up to which its target is hidden.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u128, SeenAt)> {
        self.at.iter().map(|(hash, at)| (*hash, *at))
    }

    /// Whether a tombstone with this date or a later one exists.
    pub(crate) fn covers(&self, hash: u128, at: SeenAt) -> bool {
        self.at.get(&hash).is_some_and(|metadata| at <= *metadata)
    }

    /// The number of tombstones.
    pub(crate) fn len(&self) -> usize {
        self.at.len()
    }

    /// The tombstone of a target.
    pub(crate) fn hash(&self, target: &Target) -> u128 {
        self.key.of(target)
    }

    /// Adds a tombstone; of two tombstones for the same target the later counts.
    pub(crate) fn add(&mut self, hash: u128, at: SeenAt) {
        let metadata = self.at.entry(hash).or_insert(at);
        *metadata = at.max(*metadata);
        self.newest = at.max(self.newest);
    }

    /// Whether a tombstone hides a row.
    pub(crate) fn hides(&self, by: Side, key: &str, value: &str, seen_at: SeenAt) -> bool {
        if seen_at > self.newest || self.at.is_empty() {
            return false;
        }
        let (id, partner_id) = match by {
            Side::Id => (key.as_bytes(), value.as_bytes()),
            Side::PartnerId => (value.as_bytes(), key.as_bytes()),
        };
        let hidden = |hash: u128| self.at.get(&hash).is_some_and(|at| seen_at <= *at);
        self.key.any_of(id, partner_id, hidden)
    }
}
