//! The events that a test causes on its own thread, as lines of text. Must not know what is tested.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Metadata, Subscriber};

/// Keeps what this thread logs, at all levels, until it is dropped.
pub struct LogCapture {
    lines: Lines,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

/// A line of the log: `WARN message field=value`.
struct Line(String);

impl LogCapture {
    /// Keeps what is logged from now on.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it changes the state of the thread")]
    pub fn new() -> LogCapture {
        let lines = Lines::default();
        let guard = set_default(lines.clone());
        LogCapture { lines, _guard: guard }
    }

    /// Takes the lines so far that have this text, oldest first, and drops the others.
    pub fn take(&self, text: &str) -> Vec<String> {
        let mut lines = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.drain(..).filter(|line| line.contains(text)).collect()
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
