//! Identifiers and dates as cases write them, and what they stand for.

use idmatch_model::{SeenAt, Window};
use idmatch_store::{Error, ErrorKind, Result};
use serde::Deserialize;

/// An identifier, or a malformed value in its place.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "an identifier is text, {repeat, times, then}, {bytes} or {fixed}"
)]
pub(super) enum Text {
    Plain(String),
    /// A text repeated, then another one.
    Repeated {
        repeat: String,
        times: usize,
        #[serde(default)]
        then: String,
    },
    /// Any bytes, in hex.
    Bytes {
        bytes: String,
    },
    /// Lowercase hex, whose bytes are given in a column of fixed-size binary.
    Fixed {
        fixed: String,
    },
}

/// A date: ISO 8601, relative to now, counted from another date, or an invalid text.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "a date is text or {from, step_ms}")]
pub(super) enum Date {
    Plain(DateText),
    /// `from` plus `step_ms` for each unit of the row's number.
    Counted {
        from: DateText,
        step_ms: u64,
    },
}

/// A date as text. It is parsed once: generated rows ask for it thousands of times.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "String")]
pub(super) struct DateText {
    text: String,
    /// Its instant; `None` where the text is relative to now, or no date.
    fixed: Option<SeenAt>,
}

impl From<String> for DateText {
    fn from(text: String) -> DateText {
        DateText { fixed: SeenAt::parse(&text).ok(), text }
    }
}

impl DateText {
    fn value(&self, scope: Scope) -> Result<DateValue> {
        let instant = match self.fixed {
            Some(fixed) => Some(fixed),
            None => relative(&self.text, scope.now)?,
        };
        Ok(instant.map_or_else(|| DateValue::Unreadable(self.text.clone()), DateValue::Instant))
    }
}

/// The meaning of a date in a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DateValue {
    Instant(SeenAt),
    /// An invalid date, which is loaded as it is.
    Unreadable(String),
}

/// A value of a column of identifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Given {
    /// Text, or bytes in its place.
    Bytes(Vec<u8>),
    /// A value of fixed-size binary.
    Fixed(Vec<u8>),
}

/// The context of a value: the clock of the run and the number of a generated row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    pub(super) now: SeenAt,
    pub(super) number: Option<u64>,
}

impl Scope {
    /// The scope of values outside generated rows.
    pub(super) fn new(now: SeenAt) -> Scope {
        Scope { now, number: None }
    }
}

impl Text {
    /// The bytes of the value.
    pub(super) fn bytes(&self, scope: Scope) -> Result<Vec<u8>> {
        match self {
            Text::Plain(text) => Ok(match scope.number {
                Some(number) => numbered(text, number)?.into_bytes(),
                None => text.clone().into_bytes(),
            }),
            Text::Repeated { repeat, times, then } => {
                Ok((repeat.repeat(*times) + then).into_bytes())
            }
            Text::Bytes { bytes } => from_hex(bytes),
            Text::Fixed { fixed } => Ok(fixed.clone().into_bytes()),
        }
    }

    /// The value as a column of identifiers has it.
    pub(super) fn given(&self, scope: Scope) -> Result<Given> {
        match self {
            Text::Fixed { fixed } => from_hex(fixed).map(Given::Fixed),
            text => text.bytes(scope).map(Given::Bytes),
        }
    }

    /// The text of the value; bytes that are no text are an error in the case.
    pub(super) fn text(&self, scope: Scope) -> Result<String> {
        String::from_utf8(self.bytes(scope)?).map_err(|_| wrong("this must be UTF-8 here"))
    }
}

impl Date {
    /// The meaning of the date at this clock.
    pub(super) fn value(&self, scope: Scope) -> Result<DateValue> {
        match self {
            Date::Plain(text) => text.value(scope),
            Date::Counted { from, step_ms } => {
                let number =
                    scope.number.ok_or_else(|| wrong("only a generated row has a counted date"))?;
                let from = from.value(scope)?.instant()?;
                let millis = from.millis().saturating_add(number.saturating_mul(*step_ms));
                let millis = i64::try_from(millis).unwrap_or(i64::MAX);
                Ok(DateValue::Instant(SeenAt::from_millis(millis)?))
            }
        }
    }

    /// The instant of the date; a text that is no date is an error in the case.
    pub(super) fn instant(&self, scope: Scope) -> Result<SeenAt> {
        self.value(scope)?.instant()
    }
}

impl DateValue {
    fn instant(self) -> Result<SeenAt> {
        match self {
            DateValue::Instant(instant) => Ok(instant),
            DateValue::Unreadable(text) => Err(wrong(format!("{text:?} is no date"))),
        }
    }
}

/// Reads `now`, `now-30d`, `now+1h` or `now-5ms`; `None` for a text that does not start with `now`.
fn relative(text: &str, now: SeenAt) -> Result<Option<SeenAt>> {
    let Some(offset) = text.strip_prefix("now") else { return Ok(None) };
    if offset.is_empty() {
        return Ok(Some(now));
    }
    let units = [("d", 86_400_000), ("h", 3_600_000), ("ms", 1)];
    let millis = units.iter().find_map(|(unit, millis)| {
        let amount: i64 = offset.strip_suffix(unit)?.parse().ok()?;
        now.millis_i64().checked_add(amount.checked_mul(*millis)?)
    });
    let millis = millis.ok_or_else(|| wrong(format!("{text:?} is no date relative to now")))?;
    Ok(Some(SeenAt::from_millis(millis)?))
}

/// Puts the number where the text has `%d`, or `%07d` for at least seven digits.
fn numbered(text: &str, number: u64) -> Result<String> {
    let Some((before, pattern)) = text.split_once('%') else { return Ok(text.to_owned()) };
    let (width, after) = pattern
        .split_once('d')
        .ok_or_else(|| wrong(format!("{text:?} has a % without a d after it")))?;
    let width = match width {
        "" => 0,
        width => width.parse().map_err(|_| wrong(format!("{text:?} has no width after %")))?,
    };
    Ok(format!("{before}{number:0width$}{after}"))
}

fn from_hex(text: &str) -> Result<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let bytes = digits.map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    bytes.collect::<Option<_>>().ok_or_else(|| wrong(format!("{text:?} is no hex")))
}

/// The window of a question.
pub(super) fn window(since: Option<&Date>, until: Option<&Date>, scope: Scope) -> Result<Window> {
    let instant = |date: Option<&Date>| date.map(|date| date.instant(scope)).transpose();
    Ok(Window::new(instant(since)?, instant(until)?)?)
}

/// An error in a case file.
pub(super) fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("the case is wrong: {}", message.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str, number: Option<u64>) -> Option<String> {
        let scope = Scope { now: SeenAt::EPOCH, number };
        serde_json::from_str::<Text>(json).ok()?.text(scope).ok()
    }

    fn instant(json: &str, number: Option<u64>) -> Option<String> {
        let scope = Scope { now: SeenAt::parse("2026-03-02").ok()?, number };
        let instant = serde_json::from_str::<Date>(json).ok()?.instant(scope).ok()?;
        Some(instant.to_string())
    }

    #[test]
    fn identifiers() {
        assert_eq!(text(r#""a%""#, None).as_deref(), Some("a%"));
        assert_eq!(text(r#""h%07dx""#, Some(12)).as_deref(), Some("h0000012x"));
        assert_eq!(text(r#""%d""#, Some(12)).as_deref(), Some("12"));
        assert_eq!(text(r#""%x""#, Some(12)), None);
        assert_eq!(
            text(r#"{"repeat": "ab", "times": 2, "then": "c"}"#, None).as_deref(),
            Some("ababc")
        );
        assert_eq!(text(r#"{"bytes": "6100"}"#, None).as_deref(), Some("a\0"));
        assert_eq!(text(r#"{"bytes": "ff"}"#, None), None);
        assert_eq!(text(r#"{"bytes": "f"}"#, None), None);
    }

    #[test]
    fn dates() {
        let shown = |json: &str| instant(json, None);
        assert_eq!(shown(r#""2026-01-01""#).as_deref(), Some("2026-01-01T00:00:00.000Z"));
        assert_eq!(shown(r#""now""#).as_deref(), Some("2026-03-02T00:00:00.000Z"));
        assert_eq!(shown(r#""now-1d""#).as_deref(), Some("2026-03-01T00:00:00.000Z"));
        assert_eq!(shown(r#""now+2h""#).as_deref(), Some("2026-03-02T02:00:00.000Z"));
        assert_eq!(shown(r#""now-1ms""#).as_deref(), Some("2026-03-01T23:59:59.999Z"));
        assert_eq!([r#""now-1w""#, r#""now-1""#, r#""soon""#].map(shown), [None, None, None]);
        let counted = r#"{"from": "1970-01-01", "step_ms": 1000}"#;
        assert_eq!(instant(counted, Some(61)).as_deref(), Some("1970-01-01T00:01:01.000Z"));
        assert_eq!(instant(counted, None), None);
    }
}
