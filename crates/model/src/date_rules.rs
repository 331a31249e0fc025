//! How a source writes its dates: ISO 8601, a pattern, or a number since 1970, in a time zone.
//!
//! Invariant: no number becomes a date that its writer cannot have meant. A bare number is a date only if it
//! is one as written, or as milliseconds near the present; otherwise the reason names the unit that would fit.
//! A reason has no value, only its form: a column that was named by mistake may have identifiers.

use crate::{SeenAt, SeenAtError};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, civil, fmt::strtime};

/// 2001-01-01T00:00:00Z: no bare number of milliseconds is older.
const OLDEST_BARE_MILLIS: i64 = 978_307_200_000;
const DAY_MILLIS: i64 = 86_400_000;
/// Characters of a form: more than a date has.
const FORM_CHARS: usize = 40;

/// How dates are written. The default is ISO 8601 in UTC.
#[derive(Debug, Clone, Default)]
pub struct DateRules {
    format: Option<DateFormat>,
    zone: Option<TimeZone>,
}

#[derive(Debug, Clone)]
enum DateFormat {
    Epoch(TimeUnit),
    /// A pattern of strptime.
    Pattern(String),
}

/// A unit of time since 1970.
#[derive(Debug, Clone, Copy)]
struct TimeUnit {
    name: &'static str,
    long_name: &'static str,
    /// Units in a millisecond, and milliseconds in a unit; one of them is 1.
    per_milli: i64,
    millis: i64,
}

const TIME_UNITS: [TimeUnit; 4] = [
    TimeUnit { name: "s", long_name: "seconds", per_milli: 1, millis: 1_000 },
    TimeUnit { name: "ms", long_name: "milliseconds", per_milli: 1, millis: 1 },
    TimeUnit { name: "us", long_name: "microseconds", per_milli: 1_000, millis: 1 },
    TimeUnit { name: "ns", long_name: "nanoseconds", per_milli: 1_000_000, millis: 1 },
];

/// Why rules are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DateRulesError {
    /// The pattern has no field of a date, or one that is not known.
    #[error(
        "the date format {0:?} is neither s, ms, us, ns nor a pattern such as %d/%m/%Y or \
         %Y-%m-%d %H:%M:%S: {1}"
    )]
    Format(String, String),
    /// There is no such time zone.
    #[error("there is no time zone {0:?}; name one such as Europe/Paris or UTC")]
    Zone(String),
}

/// Why a value is no date by these rules, without the value.
pub type NoDate = String;

impl DateRules {
    /// Rules of a format (`s`, `ms`, `us`, `ns` or a pattern of strptime) and of the zone of local times.
    ///
    /// # Errors
    /// For a pattern that cannot give a date, and for an unknown zone.
    pub fn new(format: Option<&str>, zone: Option<&str>) -> Result<DateRules, DateRulesError> {
        let format = format.map(parse_format).transpose()?;
        let zone =
            zone.map(|name| TimeZone::get(name).map_err(|_| DateRulesError::Zone(name.to_owned())));
        Ok(DateRules { format, zone: zone.transpose()? })
    }

    /// Whether local times are not UTC.
    pub fn has_zone(&self) -> bool {
        self.zone.is_some()
    }

    /// The instant of a text.
    ///
    /// # Errors
    /// The reason, with the form of the text.
    pub fn text(&self, text: &str, now: SeenAt) -> Result<SeenAt, NoDate> {
        match &self.format {
            Some(DateFormat::Epoch(unit)) => epoch_text(text, *unit),
            Some(DateFormat::Pattern(pattern)) => self.by_pattern(text, pattern),
            None => match text.parse::<i64>() {
                Ok(number) if is_bare(text) => self.bare(number, now),
                _ if is_bare(text) => {
                    Err(format!("is no date: {} is too large for any unit", shown_digits(text)))
                }
                _ => self.iso(text),
            },
        }
    }

    /// The instant of a number.
    ///
    /// # Errors
    /// The reason, with the number of digits.
    pub fn number(&self, number: i64, now: SeenAt) -> Result<SeenAt, NoDate> {
        match &self.format {
            Some(DateFormat::Epoch(unit)) => checked(unit.millis_of(number)),
            Some(DateFormat::Pattern(pattern)) => self.by_pattern(&number.to_string(), pattern),
            None => self.bare(number, now),
        }
    }

    /// The instant of a local time, in milliseconds since 1970 as if it were UTC.
    ///
    /// # Errors
    /// The reason, for a time that the zone skips.
    pub fn local_millis(&self, millis: i64) -> Result<SeenAt, NoDate> {
        let Some(zone) = &self.zone else { return checked(millis) };
        let Ok(utc) = Timestamp::from_millisecond(millis) else { return checked(millis) };
        local(utc.to_zoned(TimeZone::UTC).datetime(), zone)
    }

    fn iso(&self, text: &str) -> Result<SeenAt, NoDate> {
        if let (Some(zone), false) = (&self.zone, text.contains('['))
            && text.parse::<Timestamp>().is_err()
            && let Ok(civil) = text.parse::<civil::DateTime>()
        {
            return local(civil, zone);
        }
        SeenAt::parse(text).map_err(|e| match e {
            SeenAtError::NotADate(_) => {
                format!("is no date: its form is {:?}; it {}", form_of(text), e.reason())
            }
            _ => e.reason().to_owned(),
        })
    }

    fn by_pattern(&self, text: &str, pattern: &str) -> Result<SeenAt, NoDate> {
        // jiff's own texts may repeat the value.
        let form = || format!("is no date: its form is {:?}", form_of(text));
        let misfit = |_| format!("{}, which does not fit {pattern:?}", form());
        let no_day =
            |_| format!("{}, which fits {pattern:?}; there is no such day or time", form());
        let parsed = strtime::parse(pattern, text).map_err(misfit)?;
        if parsed.offset().is_some() || parsed.timestamp().is_some() {
            let instant = parsed.to_timestamp().map_err(no_day)?;
            return checked(instant.as_nanosecond().div_euclid(1_000_000) as i64);
        }
        let date = parsed.to_date().map_err(no_day)?;
        let time = match parsed.hour().is_some() {
            true => parsed.to_time().map_err(no_day)?,
            false => civil::Time::midnight(),
        };
        self.local(date.to_datetime(time))
    }

    fn local(&self, civil: civil::DateTime) -> Result<SeenAt, NoDate> {
        match &self.zone {
            Some(zone) => local(civil, zone),
            None => local(civil, &TimeZone::UTC),
        }
    }

    /// The instant of a number without a unit or a pattern.
    fn bare(&self, number: i64, now: SeenAt) -> Result<SeenAt, NoDate> {
        if let Some(date) = as_digits(number) {
            return self.local(date.to_datetime(civil::Time::midnight()));
        }
        let fits = |millis: i64| {
            (OLDEST_BARE_MILLIS..=now.millis_i64().saturating_add(DAY_MILLIS)).contains(&millis)
        };
        if fits(number) {
            return checked(number);
        }
        let unit = TIME_UNITS.into_iter().find(|unit| fits(unit.millis_of(number)));
        let number = shown_digits(&number.to_string());
        Err(match unit {
            Some(TimeUnit { name, long_name, .. }) => {
                format!("is no date: {number} looks like {long_name}; say --date-format {name}")
            }
            None => format!(
                "is no date: {number} is neither a day such as 20261120 nor milliseconds between 2001 \
                 and tomorrow; say its unit by --date-format s, ms, us or ns"
            ),
        })
    }
}

impl TimeUnit {
    fn millis_of(self, number: i64) -> i64 {
        number.saturating_mul(self.millis).div_euclid(self.per_milli)
    }
}

fn parse_format(text: &str) -> Result<DateFormat, DateRulesError> {
    if let Some(unit) = TIME_UNITS.into_iter().find(|unit| unit.name == text) {
        return Ok(DateFormat::Epoch(unit));
    }
    let wrong = |why: String| DateRulesError::Format(text.to_owned(), why);
    // A pattern that can be written and read back gives a date.
    let sample = civil::date(2001, 2, 3).at(16, 5, 6, 0).to_zoned(TimeZone::UTC);
    let sample = sample.map_err(|e| wrong(e.to_string()))?;
    let mut written = String::new();
    let format = strtime::BrokenDownTime::from(&sample).format(text, &mut written);
    format.map_err(|e| wrong(e.to_string()))?;
    let read = strtime::parse(text, &written).map_err(|e| wrong(e.to_string()))?;
    let date = match read.timestamp() {
        Some(instant) => Ok(instant.to_zoned(TimeZone::UTC).date()),
        None => read.to_date(),
    };
    match date {
        Ok(date) if date == sample.date() => Ok(DateFormat::Pattern(text.to_owned())),
        Ok(_) => Err(wrong("it does not have the whole year".to_owned())),
        Err(e) => Err(wrong(e.to_string())),
    }
}

/// A text of digits, perhaps with a sign.
fn is_bare(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The day that the digits of a number name, as in 20261120.
fn as_digits(number: i64) -> Option<civil::Date> {
    let [year, month, day] = [number / 10_000, number / 100 % 100, number % 100];
    let year = i16::try_from(year).ok().filter(|year| (1970..=9999).contains(year))?;
    civil::Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// A number since 1970 as text; seconds may have a fraction.
fn epoch_text(text: &str, unit: TimeUnit) -> Result<SeenAt, NoDate> {
    let wrong = || format!("is no date: {:?} is no number of {}", form_of(text), unit.long_name);
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction))
            if unit.millis > 1
                && is_bare(whole)
                && !fraction.starts_with(['-', '+'])
                && is_bare(fraction) =>
        {
            (whole, fraction)
        }
        Some(_) => return Err(wrong()),
        None => (text, ""),
    };
    let millis = unit.millis_of(whole.parse().map_err(|_| wrong())?);
    let thousandths = format!("{fraction:0<3}");
    let part: i64 =
        thousandths.get(..3).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
    checked(millis.saturating_add(part))
}

/// The instant of a local time. Where the clocks repeat it, it is the later instant.
fn local(civil: civil::DateTime, zone: &TimeZone) -> Result<SeenAt, NoDate> {
    let ambiguous = zone.to_ambiguous_timestamp(civil);
    if let AmbiguousOffset::Gap { .. } = ambiguous.offset() {
        let zone = zone.iana_name().unwrap_or("its time zone");
        return Err(format!("is no date: {zone} skips this local time"));
    }
    let Ok(instant) = ambiguous.later() else {
        return checked(if civil.year() < 1970 { i64::MIN } else { i64::MAX });
    };
    checked(instant.as_nanosecond().div_euclid(1_000_000) as i64)
}

fn checked(millis: i64) -> Result<SeenAt, NoDate> {
    SeenAt::from_millis(millis).map_err(|e| e.reason().to_owned())
}

/// A number by its digits, without its value.
fn shown_digits(number: &str) -> String {
    match number.bytes().filter(u8::is_ascii_digit).count() {
        1 => "a number of 1 digit".to_owned(),
        digits => format!("a number of {digits} digits"),
    }
}

/// The form of a text: letters as `a`, digits as `0`, the first 40 characters.
fn form_of(text: &str) -> String {
    let mut form: String = text.chars().take(FORM_CHARS).map(form_of_char).collect();
    if text.chars().nth(FORM_CHARS).is_some() {
        form.push_str("...");
    }
    form
}

fn form_of_char(char: char) -> char {
    match char {
        _ if char.is_numeric() => '0',
        _ if char.is_ascii() && !char.is_alphabetic() => char,
        _ => 'a',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-25T12:00:00Z.
    const NOW: i64 = 1_795_608_000_000;

    fn now() -> SeenAt {
        SeenAt::from_millis(NOW).unwrap()
    }

    fn rules(format: Option<&str>, zone: Option<&str>) -> DateRules {
        DateRules::new(format, zone).unwrap()
    }

    fn read(format: Option<&str>, zone: Option<&str>, text: &str) -> Result<String, String> {
        rules(format, zone).text(text, now()).map(|at| at.to_string())
    }

    #[test]
    fn patterns() {
        let day_first = |text| read(Some("%d/%m/%Y"), None, text);
        assert_eq!(day_first("03/11/2026").unwrap(), "2026-11-03T00:00:00.000Z");
        let misfit = day_first("2026-11-03").unwrap_err();
        assert!(misfit.contains("\"0000-00-00\"") && misfit.contains("%d/%m/%Y"), "{misfit}");
        assert!(day_first("31/02/2026").is_err());
        let zoned =
            read(Some("%Y-%m-%d %H:%M:%S %z"), Some("Europe/Paris"), "2026-03-01 10:00:00 +0200");
        assert_eq!(zoned.unwrap(), "2026-03-01T08:00:00.000Z");
        let short = read(Some("%y%m%d %H:%M"), None, "261103 07:08");
        assert_eq!(short.unwrap(), "2026-11-03T07:08:00.000Z");
        for wrong in ["", "%H:%M", "%d/%m", "%Q", "dd/mm/yyyy"] {
            let error = DateRules::new(Some(wrong), None).unwrap_err();
            assert!(matches!(error, DateRulesError::Format(..)), "{wrong}");
        }
    }

    #[test]
    fn numbers_since_1970() {
        for (unit, text) in [
            ("s", "1795608000"),
            ("ms", "1795608000000"),
            ("us", "1795608000000999"),
            ("ns", "1795608000000999999"),
        ] {
            assert_eq!(read(Some(unit), None, text).unwrap(), "2026-11-25T12:00:00.000Z", "{unit}");
            let number = rules(Some(unit), None).number(text.parse().unwrap(), now());
            assert_eq!(number.unwrap(), now(), "{unit}");
        }
        assert_eq!(read(Some("s"), None, "0.25").unwrap(), "1970-01-01T00:00:00.250Z");
        for wrong in ["soon", "1.5.2", "1e9", "", "-1", "1.-5"] {
            assert!(read(Some("s"), None, wrong).is_err(), "{wrong}");
        }
        assert!(read(Some("ms"), None, "1.5").is_err());
        assert!(rules(Some("s"), None).number(i64::MAX, now()).is_err());
    }

    #[test]
    fn bare_numbers() {
        let bare = |text: &str| read(None, None, text);
        assert_eq!(bare("20261120").unwrap(), "2026-11-20T00:00:00.000Z");
        assert_eq!(bare("1795608000000").unwrap(), "2026-11-25T12:00:00.000Z");
        assert_eq!(
            rules(None, None).number(20_261_120, now()).unwrap().millis(),
            1_795_132_800_000
        );
        for (text, unit) in
            [("1795608000", "s"), ("1795608000000000", "us"), ("1795608000000000000", "ns")]
        {
            let reason = bare(text).unwrap_err();
            assert!(reason.ends_with(&format!("say --date-format {unit}")), "{reason}");
        }
        for text in
            ["0", "1", "20261320", "-5", "99999999999999999999999", "1795608000000000000000"]
        {
            assert!(bare(text).unwrap_err().starts_with("is no date"), "{text}");
        }
        // A day after tomorrow is no number of milliseconds.
        assert!(rules(None, None).number(NOW + DAY_MILLIS, now()).is_ok());
        assert!(rules(None, None).number(NOW + DAY_MILLIS + 1, now()).is_err());
    }

    #[test]
    fn local_times() {
        let paris = |text: &str| read(None, Some("Europe/Paris"), text);
        assert_eq!(paris("2026-07-01 12:00:00").unwrap(), "2026-07-01T10:00:00.000Z");
        assert_eq!(paris("2026-12-01").unwrap(), "2026-11-30T23:00:00.000Z");
        assert_eq!(paris("2026-07-01T12:00:00Z").unwrap(), "2026-07-01T12:00:00.000Z");
        // Clocks go from 2:00 to 3:00, and from 3:00 to 2:00.
        let skipped = paris("2026-03-29 02:30:00").unwrap_err();
        assert!(skipped.contains("Europe/Paris skips"), "{skipped}");
        assert_eq!(paris("2026-10-25 02:30:00").unwrap(), "2026-10-25T01:30:00.000Z");
        assert_eq!(paris("20260701").unwrap(), "2026-06-30T22:00:00.000Z");
        let noon = 1_782_907_200_000; // 2026-07-01T12:00:00
        let at = rules(None, Some("Europe/Paris")).local_millis(noon).unwrap();
        assert_eq!(at.to_string(), "2026-07-01T10:00:00.000Z");
        assert!(matches!(DateRules::new(None, Some("Paris")), Err(DateRulesError::Zone(_))));
    }
}
