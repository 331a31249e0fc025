//! The wishes of a caller about one operation besides its result: to give it up, to end it in time, to hear
//! of its progress.
//!
//! Must not know any operation. Invariant: a clone shares the cancellation flag.

use crate::clock::instant;
use crate::{Error, ErrorKind, Result, Stage, Timings};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Called with the progress of an operation, by several threads at once. It must return soon.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

/// Says whether a call is to end. Each check asks it, on any thread. It must return soon.
pub type EndCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// The progress of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The present stage, such as `verify`.
    pub stage: &'static str,
    /// The work done since the last report, in the unit of the stage.
    pub done: u64,
    /// The unit of `done`.
    pub unit: Unit,
}

/// The unit of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of files.
    Bytes,
    /// Rows of a table or of an input.
    Rows,
}

/// One call of a store. The default never ends early and reports nothing.
#[derive(Clone, Default)]
pub struct Call {
    cancelled: Option<Arc<AtomicBool>>,
    ended: Option<EndCheck>,
    deadline: Option<Instant>,
    progress: Option<ProgressSink>,
    writer_wait: Duration,
    timings: Option<(Arc<Timings>, Stage)>,
}

impl Call {
    /// The same call, which ends soon after the flag is set.
    #[must_use]
    pub fn cancelled_by(mut self, flag: &Arc<AtomicBool>) -> Call {
        self.cancelled = Some(Arc::clone(flag));
        self
    }

    /// The same call, which ends soon after this check says so.
    #[must_use]
    pub fn ended_by(mut self, check: EndCheck) -> Call {
        self.ended = Some(check);
        self
    }

    /// The same call, which ends soon after this instant.
    #[must_use]
    pub fn until(mut self, deadline: Instant) -> Call {
        self.deadline = Some(deadline);
        self
    }

    /// The same call, which reports its progress.
    #[must_use]
    pub fn reporting(mut self, progress: ProgressSink) -> Call {
        self.progress = Some(progress);
        self
    }

    /// The same call, which waits this long while another process writes the store.
    #[must_use]
    pub fn waiting_for_writer(mut self, at_most: Duration) -> Call {
        self.writer_wait = at_most;
        self
    }

    /// How long it waits while another process writes the store. Stores with several writers ignore it.
    pub fn writer_wait(&self) -> Duration {
        self.writer_wait
    }

    /// The same call, whose match adds its time to these timings.
    #[must_use]
    pub fn timed(mut self, timings: &Arc<Timings>) -> Call {
        self.timings = Some((Arc::clone(timings), Stage::Population));
        self
    }

    /// The same call, where the time of the source counts for this stage instead of the population.
    #[must_use]
    pub fn with_source_stage(mut self, stage: Stage) -> Call {
        if let Some((_, of_source)) = &mut self.timings {
            *of_source = stage;
        }
        self
    }

    /// The timings that a match adds its time to. They are read only if the call is timed.
    pub fn timings(&self) -> Arc<Timings> {
        self.timings.as_ref().map(|(timings, _)| Arc::clone(timings)).unwrap_or_default()
    }

    /// The stage that the time of the source is added to.
    pub fn source_stage(&self) -> Stage {
        self.timings.as_ref().map_or(Stage::Population, |(_, stage)| *stage)
    }

    /// Whether it can end before its work does.
    pub fn may_end_early(&self) -> bool {
        self.cancelled.is_some() || self.ended.is_some() || self.deadline.is_some()
    }

    /// Goes on, or ends the call. Cost: nanoseconds; to be asked several times in 100 ms.
    ///
    /// # Errors
    /// `Cancelled` after the flag is set, the check has said so, or the deadline has passed.
    pub fn check(&self) -> Result<()> {
        let is_cancelled = self.cancelled.as_ref().is_some_and(|flag| flag.load(Relaxed));
        if is_cancelled || self.ended.as_ref().is_some_and(|is_ended| is_ended()) {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted: the caller gave up"));
        }
        match self.deadline.is_some_and(has_passed) {
            true => Err(Error::new(ErrorKind::Cancelled, "interrupted: the deadline has passed")),
            false => Ok(()),
        }
    }

    /// Reports progress, and does what [`Call::check`] does.
    ///
    /// # Errors
    /// The errors of [`Call::check`].
    pub fn report(&self, stage: &'static str, done: u64, unit: Unit) -> Result<()> {
        if let Some(progress) = &self.progress {
            progress(Progress { stage, done, unit });
        }
        self.check()
    }
}

fn has_passed(deadline: Instant) -> bool {
    instant() >= deadline
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("cancelled", &self.cancelled)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
