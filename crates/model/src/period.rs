//! Lengths of time as people write them: `90d`, `13mo`, `36h`.

use crate::SeenAt;
use jiff::{SignedDuration, Span, tz::TimeZone};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The shortest retention.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// A length of calendar time, such as a retention. Months and years follow the calendar in UTC. Periods of the
/// same length are equal, however they are written: `1y` and `12mo`, `1d` and `24h`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Period {
    text: String,
    span: Span,
}

/// Why a text is not a period, or a period is no retention.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeriodError {
    /// It is no positive length of time.
    #[error("{0:?} is not a length of time; write it like 90d, 13mo, 36h or 2y")]
    NoPeriod(String),
    /// `m` means minutes: the text, and the number before it.
    #[error("the retention {0:?} has minutes; write {1}mo for months")]
    Minutes(String, String),
    /// A retention of less than a day.
    #[error("the retention {0:?} is shorter than a day; write 1d or longer, such as 90d or 13mo")]
    UnderADay(String),
}

impl Period {
    /// Reads a positive period in jiff's friendly or ISO 8601 form.
    pub fn parse(text: &str) -> Result<Period, PeriodError> {
        let (text, wrong) = (text.trim(), || PeriodError::NoPeriod(text.to_owned()));
        let span: Span = text.parse().map_err(|_| wrong())?;
        match span.is_positive() {
            true => Ok(Period { text: text.to_owned(), span }),
            false => Err(wrong()),
        }
    }

    /// Refuses periods that are no retention: less than a day, or with the unit `m`, which is rarely meant.
    pub fn check_retention(&self) -> Result<(), PeriodError> {
        if let Some(number) = minutes_in(&self.text) {
            return Err(PeriodError::Minutes(self.text.clone(), number.to_owned()));
        }
        match self.length() < (0, DAY) {
            true => Err(PeriodError::UnderADay(self.text.clone())),
            false => Ok(()),
        }
    }

    /// The instant this long before `now`; 1970 if that is earlier still.
    pub fn before(&self, now: SeenAt) -> SeenAt {
        let earlier = now.timestamp().to_zoned(TimeZone::UTC).checked_sub(self.span);
        let earlier = earlier.map(|zoned| zoned.timestamp().as_millisecond());
        earlier.ok().and_then(|ms| SeenAt::from_millis(ms).ok()).unwrap_or(SeenAt::EPOCH)
    }

    /// Its months, and the rest of its time: a day has 24 hours in UTC.
    fn length(&self) -> (i64, SignedDuration) {
        let span = &self.span;
        let months = i64::from(span.get_years()) * 12 + i64::from(span.get_months());
        let hours = (i64::from(span.get_weeks()) * 7 + i64::from(span.get_days())) * 24
            + i64::from(span.get_hours());
        let left = SignedDuration::from_hours(hours)
            + SignedDuration::from_mins(span.get_minutes())
            + SignedDuration::from_secs(span.get_seconds())
            + SignedDuration::from_millis(span.get_milliseconds())
            + SignedDuration::from_micros(span.get_microseconds())
            + SignedDuration::from_nanos(span.get_nanoseconds());
        (months, left)
    }
}

/// The number before the unit `m` in the friendly form. In ISO 8601 an M before the T is months.
fn minutes_in(text: &str) -> Option<&str> {
    if text.trim_start_matches('+').starts_with(['P', 'p']) {
        return None;
    }
    let mut parts = text.match_indices('m').map(|(at, _)| text.split_at(at));
    let (before, _) = parts.find(|(before, after)| {
        let is_unit = !after.chars().nth(1).is_some_and(char::is_alphabetic);
        is_unit && before.trim_end().ends_with(|c: char| c.is_ascii_digit())
    })?;
    before.trim_end().rsplit(|c: char| !c.is_ascii_digit()).next()
}

impl PartialEq for Period {
    fn eq(&self, other: &Period) -> bool {
        self.length() == other.length()
    }
}

impl Eq for Period {}

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

    #[test]
    fn the_same_length_is_equal_however_it_is_written() {
        let same = [("1y", "12mo"), ("1d", "24h"), ("2w", "14 days"), ("P1Y2M", "14mo")];
        for (one, other) in same.into_iter().chain([("1mo 1d", "1 month 1440m"), ("1s", "1000ms")])
        {
            assert_eq!(Period::parse(one), Period::parse(other), "{one} and {other}");
        }
        for (one, other) in [("1y", "365d"), ("1mo", "30d"), ("1d", "25h"), ("13mo", "13m")] {
            assert_ne!(Period::parse(one), Period::parse(other), "{one} and {other}");
        }
        let written = Period::parse(" 12mo ").map(|period| period.to_string());
        assert_eq!(written.as_deref(), Ok("12mo"));
    }

    #[test]
    fn a_retention_is_at_least_a_day_and_has_no_minutes() {
        let checked = |text| Period::parse(text).and_then(|period| period.check_retention());
        for text in ["1d", "24h", "86400s", "1440 minutes", "1mo", "P13M", "p13m", "13mo", "2y"] {
            assert_eq!(checked(text), Ok(()), "{text}");
        }
        for text in ["1s", "23h", "23h 59min", "86399s", "PT13M", "999ms"] {
            assert_eq!(checked(text), Err(PeriodError::UnderADay(text.to_owned())));
        }
        for (text, number) in [("13m", "13"), ("13 m", "13"), ("9999m", "9999"), ("2d 30m", "30")] {
            let refused = PeriodError::Minutes(text.to_owned(), number.to_owned());
            assert_eq!(checked(text), Err(refused));
        }
        let shown = checked("13m").map_err(|e| e.to_string());
        let text = "the retention \"13m\" has minutes; write 13mo for months";
        assert_eq!(shown, Err(text.to_owned()));
    }

    proptest::proptest! {
        #[test]
        fn equal_periods_end_at_the_same_instant(
            months in 0_i64..60, days in 0_i64..100, hours in 0_i64..100, now in 0_i64..4_102_444_800_000,
        ) {
            let one = format!("{}y {}mo {days}d {}h", months / 12, months % 12, hours + 1);
            let other = format!("{months}mo {}h", days * 24 + hours + 1);
            let (one, other) = (Period::parse(&one), Period::parse(&other));
            proptest::prop_assert_eq!(&one, &other);
            let now = SeenAt::from_millis(now).unwrap_or(SeenAt::EPOCH);
            proptest::prop_assert_eq!(one.map(|p| p.before(now)), other.map(|p| p.before(now)));
        }
    }
}
