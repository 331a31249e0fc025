//! The events that a test causes on its own thread, as lines of text. Must not know what is tested.
//!
//! One subscriber of the process serves all threads: with one for each, whether an event is of interest would be
//! decided once, by the thread that causes it first.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::marker::PhantomData;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Keeps what this thread logs, at all levels, until it is dropped.
pub struct LogCapture {
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

/// Keeps the events of threads that want them.
struct OfThreads;

/// A line of the log: `WARN message field=value`.
struct Line(String);

impl LogCapture {
    /// Keeps what is logged from now on.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it changes the state of the thread")]
    pub fn new() -> LogCapture {
        // Only the first one of the process sets it.
        set_global_default(OfThreads).ok();
        LINES.set(Some(Vec::new()));
        LogCapture { _thread: PhantomData }
    }

    /// Takes the lines so far that have this text, oldest first, and drops the others.
    pub fn take(&self, text: &str) -> Vec<String> {
        let lines = LINES.replace(Some(Vec::new())).unwrap_or_default();
        lines.into_iter().filter(|line| line.contains(text)).collect()
    }
}

impl Drop for LogCapture {
    fn drop(&mut self) {
        LINES.set(None);
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

impl Subscriber for OfThreads {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        LINES.with_borrow(Option::is_some)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        LINES
            .with_borrow_mut(|lines| lines.iter_mut().for_each(|lines| lines.push(line.0.clone())));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
