//! The values in an address: the form of each kind, and the error of a wrong one.
//!
//! Must not know which options exist.

use super::fields::Login;
use idmatch_model::parse_size;
use idmatch_store::{Error, ErrorKind, Result};
use percent_encoding::percent_decode_str;
use scylla::statement::Consistency;
use std::str::FromStr;
use std::time::Duration;

const PORT: u16 = 9042;

/// Consistency levels.
pub(super) const CONSISTENCIES: [(&str, Consistency); 8] = [
    ("one", Consistency::One),
    ("local_one", Consistency::LocalOne),
    ("two", Consistency::Two),
    ("three", Consistency::Three),
    ("quorum", Consistency::Quorum),
    ("local_quorum", Consistency::LocalQuorum),
    ("each_quorum", Consistency::EachQuorum),
    ("all", Consistency::All),
];

/// On and off.
pub(super) const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

/// The error of an address, with the name of the wrong part.
pub(super) fn wrong(what: &str) -> Error {
    let text = format!(
        "an address of servers is wrong: {what}; write it like \
         cql://10.0.0.1,10.0.0.2:9042/keyspace?datacenter=dc1"
    );
    Error::new(ErrorKind::InvalidArgument, text)
}

pub(super) fn node(text: &str) -> Result<String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && !port.ends_with(']') => (host, port.parse()),
        _ => (text, Ok(PORT)),
    };
    let port = port.map_err(|_| wrong("a host has no number as its port"))?;
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(wrong("a host is missing or has a blank"));
    }
    Ok(format!("{host}:{port}"))
}

pub(super) fn keyspace(text: &str) -> Result<String> {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() <= 48
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(wrong("the keyspace is not 1 to 48 of a-z 0-9 _, a letter first"))
    }
}

/// User and password, each from the address, or else from the environment.
pub(super) fn login(
    text: Option<&str>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Login>> {
    let decode = |text: &str| {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded.map(String::from).map_err(|_| wrong("user or password is not UTF-8"))
    };
    let (user, password) = match text.map(|text| text.split_once(':').unwrap_or((text, ""))) {
        Some((user, "")) => (Some(decode(user)?), None),
        Some((user, password)) => (Some(decode(user)?), Some(decode(password)?)),
        None => (None, None),
    };
    let Some(user) = user.or_else(|| environment("IDMATCH_CQL_USER")) else { return Ok(None) };
    let password = password.or_else(|| environment("IDMATCH_CQL_PASSWORD")).unwrap_or_default();
    Ok(Some(Login { user, password }))
}

/// A parsed value, or its fault, as the text that follows `name=value` in the error.
type Parsed<T> = std::result::Result<T, String>;

pub(super) fn number(text: &str, least: u64, most: u64) -> Parsed<u64> {
    let number = parse_size(text).ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("is no whole number from {least} to {most}, such as 100 or 5M"))
}

pub(super) fn duration(text: &str) -> Parsed<Duration> {
    let parsed = jiff::SignedDuration::from_str(text).ok().and_then(|d| Duration::try_from(d).ok());
    parsed
        .filter(|d| !d.is_zero() && *d <= Duration::from_secs(86_400))
        .ok_or_else(|| "is no length of time, such as 50ms, 10s or 2m".to_owned())
}

/// One of several named values, in upper or lower case.
pub(super) fn one_of<T: Copy>(text: &str, all: &[(&str, T)]) -> Parsed<T> {
    let found = all.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        format!("is none of {}", names.join(", "))
    })
}

/// The name of a value in an address.
pub(super) fn name_of<T: PartialEq>(value: &T, all: &[(&'static str, T)]) -> &'static str {
    all.iter().find(|(_, other)| other == value).map(|(name, _)| *name).unwrap_or_default()
}
