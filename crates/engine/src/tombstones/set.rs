//! Sets of tombstones, and which rows they hide.

use crate::encoding::{HashSeed, Packed};
use crate::identity::Identity;
use foldhash::fast::FixedState;
use idmatch_model::{ErasureKey, Keep, SeenAt, Side};
use std::collections::HashMap;
use std::sync::Arc;

/// The rules for the rows of a table: the table, the seed of the hashes of keys, and which rows count.
#[derive(Clone)]
pub(crate) struct RowRules {
    pub(crate) table: Identity,
    pub(crate) seed: HashSeed,
    pub(crate) keep: Keep,
    pub(crate) tombstones: Arc<Tombstones>,
}

/// All tombstones of a table.
#[derive(Default)]
pub(crate) struct Tombstones {
    key: Option<ErasureKey>,
    sets: Vec<Arc<TombstoneSet>>,
    newest: Option<SeenAt>,
}

/// Some tombstones: hashes, each with the date up to which it hides.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TombstoneSet {
    hidden: HashMap<u128, SeenAt, FixedState>,
}

/// The tombstones that matter for the rows of one key.
pub(crate) struct KeyTombstones {
    tombstones: Arc<Tombstones>,
    secret: ErasureKey,
    side: Side,
    key: Vec<u8>,
    /// The date up to which all rows of the key are hidden.
    hidden: Option<SeenAt>,
}

impl RowRules {
    /// The rules of a table without tombstones.
    pub(crate) fn new(table: Identity, seed: HashSeed, keep: Keep) -> RowRules {
        RowRules { table, seed, keep, tombstones: Arc::default() }
    }
}

impl Tombstones {
    /// The tombstones of some sets. Without a key there are none.
    pub(crate) fn new(key: Option<ErasureKey>, sets: Vec<Arc<TombstoneSet>>) -> Tombstones {
        let newest = sets.iter().flat_map(|set| set.hidden.values()).max().copied();
        Tombstones { key, sets, newest }
    }

    /// The key of the hashes.
    pub(crate) fn key(&self) -> Option<ErasureKey> {
        self.key
    }

    /// How many tombstones there are.
    pub(crate) fn len(&self) -> u64 {
        self.sets.iter().map(|set| set.len()).sum()
    }

    /// The sets, oldest first.
    pub(crate) fn sets(&self) -> &[Arc<TombstoneSet>] {
        &self.sets
    }

    /// The tombstones for the rows of a key; `None` if nothing was erased.
    pub(crate) fn of_key(
        self: &Arc<Tombstones>,
        side: Side,
        key: Packed<'_>,
    ) -> Option<KeyTombstones> {
        self.newest?;
        let secret = self.key?;
        let mut text = Vec::new();
        key.unpack_into(&mut text);
        let hidden = self.hidden(match side {
            Side::Id => secret.id(&text),
            Side::PartnerId => secret.partner_id(&text),
        });
        Some(KeyTombstones { tombstones: self.clone(), secret, side, key: text, hidden })
    }

    /// All tombstones in the order of the hashes, for each target the latest.
    pub(crate) fn all(&self) -> Vec<(u128, SeenAt)> {
        let mut all = TombstoneSet::default();
        self.sets.iter().for_each(|set| all.add_all(set));
        all.sorted()
    }

    /// The date up to which a target is hidden.
    pub(crate) fn hidden(&self, hash: u128) -> Option<SeenAt> {
        self.sets.iter().filter_map(|set| set.hidden.get(&hash).copied()).max()
    }
}

impl KeyTombstones {
    /// Whether a row of the key is hidden. Asks for the value only if it matters.
    pub(crate) fn hides<'v, E>(
        &self,
        seen_at: SeenAt,
        value: impl FnOnce() -> Result<Packed<'v>, E>,
    ) -> Result<bool, E> {
        if self.tombstones.newest < Some(seen_at) {
            return Ok(false);
        }
        if self.hidden >= Some(seen_at) {
            return Ok(true);
        }
        let mut text = Vec::new();
        value()?.unpack_into(&mut text);
        let (one, both) = match self.side {
            Side::Id => (self.secret.partner_id(&text), self.secret.pair(&self.key, &text)),
            Side::PartnerId => (self.secret.id(&text), self.secret.pair(&text, &self.key)),
        };
        let is_hidden = |hash| self.tombstones.hidden(hash) >= Some(seen_at);
        Ok(is_hidden(one) || is_hidden(both))
    }
}

impl TombstoneSet {
    /// Adds a tombstone: of two tombstones of one target the later counts.
    pub(crate) fn add(&mut self, hash: u128, at: SeenAt) {
        let hidden = self.hidden.entry(hash).or_insert(at);
        *hidden = at.max(*hidden);
    }

    /// Adds all tombstones of another set.
    pub(crate) fn add_all(&mut self, other: &TombstoneSet) {
        other.hidden.iter().for_each(|(hash, at)| self.add(*hash, *at));
    }

    /// The latest date of all; `None` if there are none.
    pub(crate) fn newest(&self) -> Option<SeenAt> {
        self.hidden.values().max().copied()
    }

    /// How many erasures there are.
    pub(crate) fn len(&self) -> u64 {
        self.hidden.len() as u64
    }

    /// All of them, in the order of the hashes.
    pub(crate) fn sorted(&self) -> Vec<(u128, SeenAt)> {
        let mut all: Vec<_> = self.hidden.iter().map(|(hash, at)| (*hash, *at)).collect();
        all.sort_unstable();
        all
    }
}
