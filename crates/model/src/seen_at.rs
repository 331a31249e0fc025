//! Instants: UTC, millisecond precision, from 1970 on.

use jiff::{Timestamp, civil, tz::TimeZone};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// Milliseconds since 1970-01-01T00:00:00Z. Never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SeenAt(u64);

/// The largest instant that can be stored: 9999-12-30T22:00:00Z, jiff's own limit.
const MAX_MILLIS: u64 = 253_402_207_200_000;
const DAY_MILLIS: u64 = 86_400_000;

/// Why a value is not an instant that can be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeenAtError {
    /// The text is no ISO 8601 date or time.
    #[error("{0:?} is not an ISO 8601 date or time, such as 2026-03-01 or 2026-03-01T12:30:00Z")]
    NotADate(String),
    /// Before 1970.
    #[error("{0} ms is before 1970-01-01")]
    BeforeEpoch(i64),
    /// More than a day in the future of the clock that was given.
    #[error("{0} is more than one day in the future")]
    InTheFuture(SeenAt),
    /// Too large for any calendar.
    #[error("{0} ms is after 9999-12-30T22:00:00Z, the latest date there is")]
    TooLarge(i64),
}

impl SeenAtError {
    /// What is wrong, without its subject, and without the value: a column that was named by mistake may have
    /// identifiers.
    pub fn reason(&self) -> &'static str {
        match self {
            SeenAtError::NotADate(_) => {
                "is not an ISO 8601 date or time, such as 2026-03-01 or 2026-03-01T12:30:00Z"
            }
            SeenAtError::BeforeEpoch(_) => "is out of range: it is before 1970-01-01",
            SeenAtError::InTheFuture(_) => "is out of range: it is more than one day in the future",
            SeenAtError::TooLarge(_) => {
                "is out of range: it is after 9999-12-30T22:00:00Z, the latest date there is"
            }
        }
    }
}

impl SeenAt {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: SeenAt = SeenAt(0);
    /// The latest instant that can be stored.
    pub const MAX: SeenAt = SeenAt(MAX_MILLIS);

    /// An instant from milliseconds since 1970; any year up to 9999.
    pub fn from_millis(millis: i64) -> Result<SeenAt, SeenAtError> {
        match u64::try_from(millis) {
            Err(_) => Err(SeenAtError::BeforeEpoch(millis)),
            Ok(ms) if ms > MAX_MILLIS => Err(SeenAtError::TooLarge(millis)),
            Ok(ms) => Ok(SeenAt(ms)),
        }
    }

    /// Milliseconds since 1970.
    pub fn millis(self) -> u64 {
        self.0
    }

    /// Milliseconds since 1970, as Arrow's timestamp arrays hold them.
    pub fn millis_i64(self) -> i64 {
        // Lossless: no SeenAt exceeds MAX_MILLIS.
        self.0 as i64
    }

    /// Checks that an observation may have this date: at most one day after `now`.
    pub fn check_observed(self, now: SeenAt) -> Result<SeenAt, SeenAtError> {
        if self.0 > now.0.saturating_add(DAY_MILLIS) {
            return Err(SeenAtError::InTheFuture(self));
        }
        Ok(self)
    }

    /// Reads an ISO 8601 date or time. Without a zone it is UTC; a date alone is its
    /// midnight; digits below a millisecond are cut off. A local time with no more than the
    /// name of its zone (`...T12:00[Europe/Berlin]`) is refused, because it is not UTC.
    pub fn parse(text: &str) -> Result<SeenAt, SeenAtError> {
        let utc = || {
            let civil: civil::DateTime = (!text.contains('[')).then(|| text.parse().ok())??;
            Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
        };
        match text.parse::<Timestamp>().ok().or_else(utc) {
            Some(t) => SeenAt::from_millis(floor_millis(t)),
            None => Err(SeenAtError::NotADate(text.to_owned())),
        }
    }

    /// The calendar form; every SeenAt has one.
    pub(crate) fn timestamp(self) -> Timestamp {
        Timestamp::from_millisecond(self.millis_i64()).unwrap_or(Timestamp::MAX)
    }
}

/// Rounds towards the past, also before 1970.
fn floor_millis(t: Timestamp) -> i64 {
    t.as_nanosecond().div_euclid(1_000_000) as i64
}

impl fmt::Display for SeenAt {
    /// ISO 8601 in UTC with milliseconds: `2026-03-01T12:30:00.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.timestamp())
    }
}

/// Newest first; ties by the bytes of the answer, ascending.
pub fn newest_first(a: (SeenAt, &[u8]), b: (SeenAt, &[u8])) -> Ordering {
    b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_and_without_zone() {
        let ms = |text: &str| SeenAt::parse(text).map(SeenAt::millis);
        assert_eq!(ms("1970-01-01T00:00:00Z"), Ok(0));
        assert_eq!(ms("1970-01-01"), Ok(0));
        assert_eq!(ms("1970-01-02 00:00:00"), Ok(86_400_000));
        assert_eq!(ms("1970-01-01T02:00:00+02:00"), Ok(0));
        assert_eq!(ms("1970-01-01T00:00:00.0019"), Ok(1));
        assert_eq!(ms("1969-12-31T23:59:59.9999Z"), Err(SeenAtError::BeforeEpoch(-1)));
        assert!(matches!(ms("soon"), Err(SeenAtError::NotADate(_))));
        assert!(matches!(ms(""), Err(SeenAtError::NotADate(_))));
        assert_eq!(ms("1970-01-01T02:00:00+02:00[Europe/Berlin]"), Ok(0));
        assert!(matches!(ms("1970-01-01T01:00:00[Europe/Berlin]"), Err(SeenAtError::NotADate(_))));
    }

    #[test]
    fn shown_as_iso_8601() {
        let t = SeenAt::parse("2026-03-01T12:30:00+01:00");
        assert_eq!(t.map(|t| t.to_string()), Ok("2026-03-01T11:30:00.000Z".to_owned()));
    }

    #[test]
    fn one_day_ahead_is_the_limit() {
        let now = SeenAt(1_000);
        assert!(SeenAt(1_000 + DAY_MILLIS).check_observed(now).is_ok());
        assert!(SeenAt(1_001 + DAY_MILLIS).check_observed(now).is_err());
    }

    #[test]
    fn the_largest_instant_has_a_calendar_form() {
        assert_eq!(SeenAt(MAX_MILLIS).timestamp().as_millisecond(), MAX_MILLIS as i64);
        assert!(SeenAt::from_millis(MAX_MILLIS as i64 + 1).is_err());
    }
}
