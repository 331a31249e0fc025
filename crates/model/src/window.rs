//! Windows of time: `since <= seen_at < until`.

use crate::{Period, SeenAt};

/// A half-open window; an open side has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    since: Option<SeenAt>,
    until: Option<SeenAt>,
}

/// A window that ends before it starts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("since {since} is after until {until}; no date can lie between them")]
pub struct WindowError {
    since: SeenAt,
    until: SeenAt,
}

impl Window {
    /// All of time.
    pub const ALL: Window = Window { since: None, until: None };

    /// A window; `since` after `until` is an error, equal ones make an empty window.
    pub fn new(since: Option<SeenAt>, until: Option<SeenAt>) -> Result<Window, WindowError> {
        match (since, until) {
            (Some(since), Some(until)) if since > until => Err(WindowError { since, until }),
            _ => Ok(Window { since, until }),
        }
    }

    /// The first instant inside; `None` for no limit.
    pub fn since(&self) -> Option<SeenAt> {
        self.since
    }

    /// The first instant after it; `None` for no limit.
    pub fn until(&self) -> Option<SeenAt> {
        self.until
    }

    /// Whether the date lies inside.
    pub fn contains(&self, seen_at: SeenAt) -> bool {
        self.reaches(seen_at) && !self.is_past(seen_at)
    }

    /// Whether the date is not too old: `since <= seen_at`.
    pub fn reaches(&self, seen_at: SeenAt) -> bool {
        self.since.is_none_or(|since| since <= seen_at)
    }

    /// Whether the date is too new: `until <= seen_at`.
    pub fn is_past(&self, seen_at: SeenAt) -> bool {
        self.until.is_some_and(|until| until <= seen_at)
    }

    /// Whether every date lies inside.
    pub fn is_all(&self) -> bool {
        *self == Window::ALL
    }

    /// The part of the window that a retention leaves visible at `now`.
    pub fn within_retention(self, retention: Option<&Period>, now: SeenAt) -> Window {
        let oldest = retention.map(|period| period.before(now));
        Window { since: self.since.max(oldest), until: self.until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Option<SeenAt> {
        SeenAt::from_millis(ms).ok()
    }

    fn holds(window: Result<Window, WindowError>, ms: i64) -> Option<bool> {
        Some(window.ok()?.contains(at(ms)?))
    }

    #[test]
    fn since_is_inside_and_until_is_outside() {
        let window = || Window::new(at(10), at(20));
        assert_eq!(
            [9, 10, 19, 20].map(|ms| holds(window(), ms)),
            [Some(false), Some(true), Some(true), Some(false)]
        );
        assert_eq!(holds(Window::new(at(10), at(10)), 10), Some(false));
        assert!(Window::new(at(11), at(10)).is_err());
    }

    #[test]
    fn retention_moves_since_forward_only() {
        let now = SeenAt::EPOCH;
        assert!(Window::ALL.within_retention(None, now).is_all());
        let day = Period::parse("1d").ok();
        let now = SeenAt::parse("2026-03-02").unwrap_or(SeenAt::EPOCH);
        let window = Window::ALL.within_retention(day.as_ref(), now);
        let edge = SeenAt::parse("2026-03-01").unwrap_or(SeenAt::EPOCH);
        assert!(window.contains(edge));
        assert!(!window.contains(SeenAt::EPOCH));
        let narrow = Window::new(Some(now), None).unwrap_or(Window::ALL);
        assert_eq!(narrow.within_retention(day.as_ref(), now), narrow);
    }
}
