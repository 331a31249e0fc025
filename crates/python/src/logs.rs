//! Events of the crates on their way to Python's `logging`: a bounded queue, and a thread that empties it.
//!
//! A thread that logs waits neither for Python nor for a handler: where the queue is full, its event is
//! dropped and counted. Only the thread of the queue takes the GIL. An event starts it, and it ends when no
//! event has come for a while. Of the CQL driver only the texts of events are passed on, from level "info"
//! on. Its spans may have keys of partitions, and its values may have queries. Must not know what is logged,
//! and how it is printed.

use crate::forks::Process;
use crate::process::{attached, detached};
use idmatch_store::locks::{Condvar, Mutex};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::Once;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU8};
use std::thread::Builder;
use std::time::{Duration, SystemTime};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Most events that wait for Python.
const MOST_WAITING: usize = 1_024;

/// The thread ends when no event has come for this time.
const IDLE: Duration = Duration::from_secs(1);

/// The time for which the end of a program waits for handlers.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// The crates whose events are told, and the loggers that get them.
const SOURCES: [(&str, &str); 3] =
    [("idmatch_engine", "idmatch.engine"), ("idmatch_cql", "idmatch.cql"), ("scylla", DRIVER)];
const DRIVER: &str = "idmatch.cql.driver";

/// The loggers' levels, as [`rank`] has them. 0 tells nothing.
static LEVELS: [AtomicU8; 3] = [const { AtomicU8::new(0) }; 3];

/// The most verbose level of the driver that is told: more verbose texts have values of statements.
const MOST_OF_DRIVER: u8 = 3;

/// The queue in which events wait; null until Python wants events. It is never freed: a thread may be about
/// to use it.
static QUEUE: AtomicPtr<EventQueue> = AtomicPtr::new(std::ptr::null_mut());

/// An event, as Python takes it: seconds since 1970, level, logger, text, and the fields' names and values.
type EventTuple = (f64, u8, &'static str, String, Vec<(&'static str, Value)>);

#[derive(IntoPyObject)]
enum Value {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
}

/// Events of one process: a fork has a queue of its own.
struct EventQueue {
    process: Process,
    /// Takes a list of events, and the number of dropped events.
    tell: Py<PyAny>,
    waiting: Mutex<Waiting>,
    /// Signalled when an event comes, and when events were told.
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<EventTuple>,
    dropped: u64,
    /// Whether the thread of the queue runs.
    is_served: bool,
    /// Whether it tells events that it has taken out of the queue.
    is_telling: bool,
}

impl EventQueue {
    fn push(&'static self, told: EventTuple) {
        let mut waiting = self.waiting.lock();
        if waiting.events.len() < MOST_WAITING {
            waiting.events.push_back(told);
        } else {
            waiting.dropped += 1;
        }
        if !waiting.is_served {
            let thread = Builder::new().name("idmatch-logs".into());
            waiting.is_served = thread.spawn(|| self.serve()).is_ok();
        }
        drop(waiting);
        self.changed.notify_all();
    }

    fn serve(&self) {
        loop {
            let is_empty = |waiting: &mut Waiting| waiting.events.is_empty();
            let mut waiting = self.changed.wait_while_for(self.waiting.lock(), is_empty, IDLE);
            waiting.is_telling = !waiting.events.is_empty();
            if !waiting.is_telling {
                waiting.is_served = false;
                return;
            }
            let events: Vec<EventTuple> = waiting.events.drain(..).collect();
            let dropped = std::mem::take(&mut waiting.dropped);
            drop(waiting);
            // An exception of a handler is not ours, and must not end the log.
            attached(|py| self.tell.call1(py, (events, dropped)).map(drop).ok());
            self.waiting.lock().is_telling = false;
            self.changed.notify_all();
        }
    }
}

/// The queue of this process.
fn queue() -> Option<&'static EventQueue> {
    let queue = QUEUE.load(Acquire);
    #[allow(unsafe_code, reason = "it is null or a queue that is never freed")]
    let queue = unsafe { queue.as_ref() };
    queue.filter(|queue| queue.process.is_this())
}

/// Has events of these levels (0 none, 1 errors, 2 warnings, 3 info, 4 debug, 5 trace) told to a callable, on
/// a thread of its own: events of the engine, of the CQL backend, and of its driver. The first callable of a
/// process stays.
#[pyfunction]
pub(crate) fn log_to(tell: Py<PyAny>, engine: u8, cql: u8, driver: u8) {
    static INSTALLED: Once = Once::new();
    if queue().is_none() {
        let (waiting, changed) = (Mutex::default(), Condvar::new());
        let made = Box::new(EventQueue { process: Process::this(), tell, waiting, changed });
        QUEUE.store(Box::into_raw(made), Release);
    }
    let levels = [engine, cql, driver.min(MOST_OF_DRIVER)];
    let changes = LEVELS.iter().zip(levels).map(|(at, level)| at.swap(level, Relaxed) != level);
    if changes.fold(false, |any, one| any | one) {
        // Nothing else in this library sets a subscriber.
        INSTALLED.call_once(|| drop(tracing::subscriber::set_global_default(Bridge)));
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Waits until all events so far are told, or handlers take too long.
#[pyfunction]
pub(crate) fn flush_logs(py: Python<'_>) {
    let Some(queue) = queue() else { return };
    detached(py, || {
        let is_late = |waiting: &mut Waiting| {
            waiting.is_served && (waiting.is_telling || !waiting.events.is_empty())
        };
        drop(queue.changed.wait_while_for(queue.waiting.lock(), is_late, LAST_WAIT));
    });
}

/// The numbers of levels that Python gives and gets.
fn rank(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// The logger of an event, and its level.
fn source(target: &str) -> Option<(&'static str, u8)> {
    let of_crate = target.split("::").next().unwrap_or_default();
    let mut sources = SOURCES.iter().zip(&LEVELS);
    let found = sources.find(|((prefix, _), _)| *prefix == of_crate);
    found.map(|((_, logger), level)| (*logger, level.load(Relaxed)))
}

struct Bridge;

impl Subscriber for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = source(metadata.target()).map_or(0, |(_, level)| level);
        metadata.is_event() && rank(metadata.level()) <= level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match LEVELS.iter().map(|level| level.load(Relaxed)).max() {
            None | Some(0) => LevelFilter::OFF,
            Some(1) => LevelFilter::ERROR,
            Some(2) => LevelFilter::WARN,
            Some(3) => LevelFilter::INFO,
            Some(4) => LevelFilter::DEBUG,
            Some(_) => LevelFilter::TRACE,
        })
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let (Some(queue), Some((logger, _))) = (queue(), source(metadata.target())) else { return };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let mut visitor = EventVisitor::default();
        event.record(&mut visitor);
        if logger == DRIVER {
            visitor.fields.clear();
        }
        let seconds = now.map_or(0.0, |now| now.as_secs_f64());
        queue.push((seconds, rank(metadata.level()), logger, visitor.text, visitor.fields));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of an event, and its fields.
#[derive(Default)]
struct EventVisitor {
    text: String,
    fields: Vec<(&'static str, Value)>,
}

impl EventVisitor {
    fn add(&mut self, field: &Field, value: Value) {
        self.fields.push((field.name(), value));
    }
}

impl Visit for EventVisitor {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Bool(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::Unsigned(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Value::Float(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string does not fail.
            write!(self.text, "{value:?}").ok();
        } else {
            self.add(field, Value::Text(format!("{value:?}")));
        }
    }
}
