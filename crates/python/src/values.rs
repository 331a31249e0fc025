//! Instants, windows, periods and sizes between Python and the model.

use crate::errors::OrRaise;
use idmatch_model::{self as model, Period, Pick, SeenAt, SeenAtError, Side, Window};
use idmatch_store::{Error, ErrorKind, Lookup, now};
use pyo3::prelude::*;
use std::num::NonZeroU32;

/// A window from two optional numbers of milliseconds.
pub(crate) fn window(py: Python<'_>, since: Option<i64>, until: Option<i64>) -> PyResult<Window> {
    if since.is_none() && until.is_none() {
        return Ok(Window::ALL);
    }
    let instant = |millis: Option<i64>| millis.map(SeenAt::from_millis).transpose();
    Window::new(instant(since).or_raise(py)?, instant(until).or_raise(py)?).or_raise(py)
}

/// How keys are looked up.
pub(crate) fn lookup(
    py: Python<'_>,
    by: &str,
    since: Option<i64>,
    until: Option<i64>,
    limit: Option<usize>,
) -> PyResult<Lookup> {
    let limit = limit.unwrap_or(usize::MAX);
    Ok(Lookup { by: side(py, by)?, window: window(py, since, until)?, limit })
}

/// A side by its name.
pub(crate) fn side(py: Python<'_>, name: &str) -> PyResult<Side> {
    match name {
        "id" => Ok(Side::Id),
        "partner_id" => Ok(Side::PartnerId),
        _ => {
            let text = format!("by is {name:?}; use \"id\" or \"partner_id\"");
            Err(wrong(text)).or_raise(py)
        }
    }
}

/// The matches of a row that are given: this number of the newest, or all.
pub(crate) fn pick(py: Python<'_>, most: Option<u32>) -> PyResult<Pick> {
    match most {
        None => Ok(Pick::All),
        Some(1) => Ok(Pick::Latest),
        Some(most) => {
            let none = || wrong("limit is 0; use 1 or more, or leave it out".to_owned());
            NonZeroU32::new(most).map(Pick::Newest).ok_or_else(none).or_raise(py)
        }
    }
}

/// Parses ISO 8601, or a period before now; returns milliseconds since 1970, 0 for earlier dates.
#[pyfunction]
pub(crate) fn parse_instant(py: Python<'_>, text: &str) -> PyResult<i64> {
    if let Ok(period) = Period::parse(text) {
        return Ok(period.before(now()).millis_i64());
    }
    match SeenAt::parse(text) {
        // No date is before 1970.
        Err(SeenAtError::BeforeEpoch(_)) => return Ok(0),
        parsed => parsed,
    }
    .map(SeenAt::millis_i64)
    .map_err(|_| {
        wrong(format!(
            "{text:?} is no point in time; write a date such as 2026-03-01, a time such as \
             2026-03-01T12:30:00Z, or a length of time before now such as 90d or 13mo"
        ))
    })
    .or_raise(py)
}

/// Parses a count or a size: `k` is 1,000, `Ki` is 1,024.
#[pyfunction]
pub(crate) fn parse_size(py: Python<'_>, text: &str) -> PyResult<u64> {
    model::parse_size(text).or_raise(py)
}

fn wrong(text: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, text)
}

/// Parses a period and returns it as text.
#[pyfunction]
pub(crate) fn parse_period(py: Python<'_>, text: &str) -> PyResult<String> {
    Period::parse(text).map(|period| period.to_string()).or_raise(py)
}

/// Formats an instant as ISO 8601 in UTC with milliseconds.
#[pyfunction]
pub(crate) fn format_instant(py: Python<'_>, millis: i64) -> PyResult<String> {
    SeenAt::from_millis(millis).map(|instant| instant.to_string()).or_raise(py)
}
