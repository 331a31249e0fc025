//! The observations of one table, and the rules of keep and order.

use idmatch_model::{ErasureKey, Keep, SeenAt, Side};
use idmatch_store::Erased;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The dates of every pair, found by its key, then by its answer.
type DatesByKey = BTreeMap<Arc<str>, BTreeMap<Arc<str>, BTreeSet<SeenAt>>>;

/// An answer of a key, and the date that is shown with it.
pub(super) type Answer = (Arc<str>, SeenAt);

/// Every observation that a table keeps, in both directions.
#[derive(Clone, Default)]
pub(super) struct Observed {
    by_id: DatesByKey,
    by_partner_id: DatesByKey,
    /// By the hash of the target.
    erasures: BTreeMap<u128, SeenAt>,
    /// The key of these hashes; `None` before the first erasure.
    key: Option<ErasureKey>,
}

impl Observed {
    /// Adds an observation; of two with the same pair, `Keep::Last` keeps the newer.
    pub(super) fn add(&mut self, keep: Keep, id: &str, partner_id: &str, seen_at: SeenAt) {
        if self.is_erased(id, partner_id, seen_at) {
            return;
        }
        add(&mut self.by_id, keep, (id, partner_id), seen_at);
        add(&mut self.by_partner_id, keep, (partner_id, id), seen_at);
    }

    /// Hides the observations of some targets up to a date each, including observations that arrive later.
    pub(super) fn erase(&mut self, key: ErasureKey, hashes: &[(u128, SeenAt)]) -> Erased {
        self.key = Some(key);
        for (hash, at) in hashes {
            let erased = self.erasures.entry(*hash).or_insert(*at);
            *erased = (*at).max(*erased);
        }
        let mut by_id = std::mem::take(&mut self.by_id);
        let mut by_partner_id = std::mem::take(&mut self.by_partner_id);
        let erased = Erased {
            by_id: remove(&mut by_id, |id, partner_id, date| self.is_erased(id, partner_id, date)),
            by_partner_id: remove(&mut by_partner_id, |partner_id, id, date| {
                self.is_erased(id, partner_id, date)
            }),
            checkpoints: Vec::new(),
        };
        (self.by_id, self.by_partner_id) = (by_id, by_partner_id);
        erased
    }

    /// The hash and the date of each erasure.
    pub(super) fn erasures(&self) -> Vec<(u128, SeenAt)> {
        self.erasures.iter().map(|(hash, at)| (*hash, *at)).collect()
    }

    fn is_erased(&self, id: &str, partner_id: &str, seen_at: SeenAt) -> bool {
        let Some(key) = self.key else { return false };
        let hides = |hash: u128| self.erasures.get(&hash).is_some_and(|at| seen_at <= *at);
        key.any_of(id.as_bytes(), partner_id.as_bytes(), hides)
    }

    /// The answers of a key: each answer that has a visible date, with the newest such date; newest first,
    /// ties by the bytes of the answer, ascending.
    pub(super) fn answers(
        &self,
        by: Side,
        key: &str,
        is_visible: impl Fn(SeenAt) -> bool,
    ) -> Vec<Answer> {
        let direction = match by {
            Side::Id => &self.by_id,
            Side::PartnerId => &self.by_partner_id,
        };
        let mut answers: Vec<Answer> = direction
            .get(key)
            .into_iter()
            .flatten()
            .filter_map(|(answer, dates)| {
                let newest = dates.iter().rev().find(|date| is_visible(**date))?;
                Some((answer.clone(), *newest))
            })
            .collect();
        // The map gives answers by their bytes, ascending, and the sort is stable.
        answers.sort_by_key(|(_, seen_at)| Reverse(*seen_at));
        answers
    }

    /// The dates of a pair, newest first.
    pub(super) fn dates(&self, id: &str, partner_id: &str) -> impl Iterator<Item = SeenAt> {
        let dates = self.by_id.get(id).and_then(|answers| answers.get(partner_id));
        dates.into_iter().flat_map(|dates| dates.iter().rev().copied())
    }

    /// Every observation as (id, partner_id, seen_at), as the direction by id holds it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str, SeenAt)> {
        flat(&self.by_id)
    }

    /// Whether both directions hold the same observations.
    pub(super) fn is_consistent(&self) -> bool {
        let mut mirrored: Vec<_> = flat(&self.by_partner_id)
            .map(|(partner_id, id, date)| (id, partner_id, date))
            .collect();
        mirrored.sort_unstable();
        self.iter().eq(mirrored)
    }
}

fn add(direction: &mut DatesByKey, keep: Keep, (key, answer): (&str, &str), seen_at: SeenAt) {
    let dates = direction.entry(key.into()).or_default().entry(answer.into()).or_default();
    dates.insert(seen_at);
    if keep == Keep::Last {
        while dates.len() > 1 {
            dates.pop_first();
        }
    }
}

/// Removes observations; returns how many there were of them.
fn remove(direction: &mut DatesByKey, is_erased: impl Fn(&str, &str, SeenAt) -> bool) -> u64 {
    let mut removed = 0;
    for (key, answers) in direction.iter_mut() {
        for (answer, dates) in answers.iter_mut() {
            let before = dates.len();
            dates.retain(|date| !is_erased(key, answer, *date));
            removed += (before - dates.len()) as u64;
        }
        answers.retain(|_, dates| !dates.is_empty());
    }
    direction.retain(|_, answers| !answers.is_empty());
    removed
}

fn flat(direction: &DatesByKey) -> impl Iterator<Item = (&str, &str, SeenAt)> {
    direction.iter().flat_map(|(key, answers)| {
        answers.iter().flat_map(move |(answer, dates)| {
            dates.iter().map(move |date| (&**key, &**answer, *date))
        })
    })
}
