//! Lengths of time as people write them: `90d`, `13mo`, `36h`.

use crate::SeenAt;
use jiff::{Span, tz::TimeZone};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A length of calendar time, such as a retention. Months and years follow the calendar in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Period {
    text: String,
}

/// Why a text is not a period.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a length of time; write it like 90d, 13mo, 36h or 2y")]
pub struct PeriodError(String);

impl Period {
    /// Reads a positive period in jiff's friendly or ISO 8601 form.
    pub fn parse(text: &str) -> Result<Period, PeriodError> {
        let wrong = || PeriodError(text.to_owned());
        let span: Span = text.trim().parse().map_err(|_| wrong())?;
        if !span.is_positive() {
            return Err(wrong());
        }
        Ok(Period { text: text.trim().to_owned() })
    }

    /// The instant this long before `now`; 1970 if that is earlier still.
    pub fn before(&self, now: SeenAt) -> SeenAt {
        let earlier = self
            .text
            .parse::<Span>()
            .and_then(|span| now.timestamp().to_zoned(TimeZone::UTC).checked_sub(span))
            .map(|zoned| zoned.timestamp().as_millisecond());
        earlier.ok().and_then(|ms| SeenAt::from_millis(ms).ok()).unwrap_or(SeenAt::EPOCH)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Period {
    type Error = PeriodError;
    fn try_from(text: String) -> Result<Period, PeriodError> {
        Period::parse(&text)
    }
}

impl From<Period> for String {
    fn from(period: Period) -> String {
        period.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before(period: &str, now: &str) -> Option<String> {
        let now = SeenAt::parse(now).ok()?;
        Some(Period::parse(period).ok()?.before(now).to_string())
    }

    #[test]
    fn months_follow_the_calendar() {
        assert_eq!(before("13mo", "2026-03-31").as_deref(), Some("2025-02-28T00:00:00.000Z"));
        assert_eq!(before("90d", "2026-03-31").as_deref(), Some("2025-12-31T00:00:00.000Z"));
        assert_eq!(before("36h", "2026-03-31").as_deref(), Some("2026-03-29T12:00:00.000Z"));
        assert_eq!(before("2y", "2026-03-31").as_deref(), Some("2024-03-31T00:00:00.000Z"));
        assert_eq!(before("900y", "2026-03-31").as_deref(), Some("1970-01-01T00:00:00.000Z"));
    }

    #[test]
    fn nonsense_zero_and_the_past_are_refused() {
        for text in ["", "90", "soon", "0d", "-3d", "3 apples"] {
            assert!(Period::parse(text).is_err(), "{text:?} was taken");
        }
    }
}
