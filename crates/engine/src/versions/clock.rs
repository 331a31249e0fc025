//! The clock of a store: whether the system's clock is believed when rows are removed by age.
//!
//! A clock that is wrong must not remove rows. The first publication confirms its reading. A later one confirms a
//! reading that is at most 7 days ahead of the highest confirmed one. A reading further ahead is a candidate, which
//! a publication at least an hour after it confirms. While the clock is further ahead, or a day behind, no row is
//! removed by age.
//!
//! The confirmed reading is never used as the time, but `catalog` uses it as the least value of the time when
//! it keeps a former retention for a day. Must not know retentions or rows. Invariant: the confirmed reading
//! never goes back.

use serde::{Deserialize, Serialize};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
/// A reading that is further ahead has to be confirmed.
const MAX_AHEAD: u64 = 7 * DAY;

/// Readings in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clock {
    /// The highest reading that is believed.
    pub(crate) confirmed: u64,
    /// A reading that is far ahead of `confirmed`, until it is confirmed.
    pub(crate) candidate: Option<u64>,
}

impl Clock {
    /// Takes the reading of a publication.
    pub(crate) fn note(&mut self, now: u64) {
        match self.is_believed(now) {
            true => *self = Clock { confirmed: self.confirmed.max(now), candidate: None },
            // A clock that went back again begins anew.
            false => self.candidate = Some(self.candidate.unwrap_or(now).min(now)),
        }
    }

    /// Whether rows may be removed by age at this reading.
    pub(crate) fn may_expire(&self, now: u64) -> bool {
        self.is_believed(now) && now.saturating_add(DAY) >= self.confirmed
    }

    fn is_believed(&self, now: u64) -> bool {
        let is_near = self.confirmed == 0 || now <= self.confirmed.saturating_add(MAX_AHEAD);
        is_near || self.candidate.is_some_and(|then| now >= then.saturating_add(HOUR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 20_000 * DAY;

    fn clock(readings: &[u64]) -> Clock {
        let mut clock = Clock::default();
        readings.iter().for_each(|now| clock.note(*now));
        clock
    }

    #[test]
    fn a_reading_far_ahead_has_to_be_confirmed() {
        let ahead = NOW + 30 * DAY;
        let waiting = clock(&[NOW, ahead, ahead + HOUR - 1]);
        assert_eq!(waiting, Clock { confirmed: NOW, candidate: Some(ahead) });
        assert!(!waiting.may_expire(ahead + HOUR - 1));
        assert!(waiting.may_expire(ahead + HOUR));
        let confirmed = clock(&[NOW, ahead, ahead + HOUR]);
        assert_eq!(confirmed, Clock { confirmed: ahead + HOUR, candidate: None });
        assert!(confirmed.may_expire(ahead + HOUR));
    }

    #[test]
    fn a_clock_that_was_ahead_for_less_than_an_hour_changes_nothing() {
        let back = clock(&[NOW, NOW + 300 * DAY, NOW + DAY]);
        assert_eq!(back, Clock { confirmed: NOW + DAY, candidate: None });
        assert!(back.may_expire(NOW + DAY));
    }

    #[test]
    fn nothing_expires_while_the_clock_is_a_day_behind_or_far_ahead() {
        let there = clock(&[NOW]);
        assert!(there.may_expire(NOW - DAY));
        assert!(!there.may_expire(NOW - DAY - 1));
        assert!(there.may_expire(NOW + MAX_AHEAD));
        assert!(!there.may_expire(NOW + MAX_AHEAD + 1));
        assert_eq!(clock(&[NOW, NOW - 2 * DAY]).confirmed, NOW);
    }
}
