//! The time of a match: the time of its threads, by their stages.
//!
//! Spans of one thread nest: the time of an inner span does not count for the outer span. Must not know any
//! backend.

use crate::clock::instant;
use crate::{MatchLane, MatchSink, Result};
use arrow_array::RecordBatch;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A stage of a thread's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reads the population.
    Population,
    /// Waits for the disk or for servers.
    Waiting,
    /// Turns stored or received bytes into rows.
    Decoding,
    /// Sorts identifiers and searches them.
    Probing,
    /// Puts carried columns aside, and brings them together with their matches.
    Carrying,
    /// Hands over rows, and waits for the receiver.
    Writing,
}

impl Stage {
    /// All stages.
    pub const ALL: [Stage; 6] = [
        Stage::Population,
        Stage::Waiting,
        Stage::Decoding,
        Stage::Probing,
        Stage::Carrying,
        Stage::Writing,
    ];

    /// Whether a blocked thread in this stage waits for the disk.
    fn reads_disk(self) -> bool {
        matches!(self, Stage::Decoding | Stage::Probing | Stage::Carrying)
    }
}

/// The thread time of each stage, and the time that callers waited for all of it.
#[derive(Debug, Default)]
pub struct Timings {
    elapsed: AtomicU64,
    /// The part of `elapsed` in which callers wrote while no other thread worked for them.
    single_threaded: AtomicU64,
    nanos: [AtomicU64; Stage::ALL.len()],
    tells_waits: bool,
}

thread_local! {
    /// The time of the spans that have ended inside the present span, and the part of it without a processor.
    static INNER: Cell<(Duration, Duration)> = const { Cell::new((Duration::ZERO, Duration::ZERO)) };
}

impl Timings {
    /// Starts at zero. `tells_waits`: whether waits for the disk are measured separately, which costs 20
    /// microseconds for each thread of each step.
    pub fn new(tells_waits: bool) -> Timings {
        Timings { tells_waits, ..Timings::default() }
    }

    /// Counts the time that the caller waits for `work`.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = instant();
        let done = work();
        self.elapsed.fetch_add(nanos(began.elapsed()), Relaxed);
        done
    }

    /// Counts, inside of [`Timings::run`], the time in which the caller opens or completes an output while no
    /// other thread works for it.
    pub fn single_threaded<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = instant();
        let done = work();
        self.single_threaded.fetch_add(nanos(began.elapsed()), Relaxed);
        done
    }

    /// Counts single-threaded time that was outside of [`Timings::run`].
    pub fn add_single_threaded(&self, time: Duration) {
        self.elapsed.fetch_add(nanos(time), Relaxed);
        self.single_threaded.fetch_add(nanos(time), Relaxed);
    }

    /// The time that callers have waited.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed.load(Relaxed))
    }

    /// The part of [`Timings::elapsed`] that was single-threaded. It is in no stage.
    pub fn single_threaded_time(&self) -> Duration {
        Duration::from_nanos(self.single_threaded.load(Relaxed))
    }

    /// Adds thread time that was measured otherwise.
    pub fn add(&self, stage: Stage, time: Duration) {
        if let Some(of_stage) = self.nanos.get(stage as usize) {
            of_stage.fetch_add(nanos(time), Relaxed);
        }
    }

    /// The thread time of each stage, in the order of [`Stage::ALL`].
    pub fn times(&self) -> [Duration; Stage::ALL.len()] {
        self.nanos.each_ref().map(|nanos| Duration::from_nanos(nanos.load(Relaxed)))
    }

    /// Counts the time of this thread until the span is dropped.
    pub fn span(&self, stage: Stage) -> Span<'_> {
        let delay = (self.tells_waits && stage.reads_disk()).then(queue_time);
        let (outer, cpu) = (INNER.take(), cpu_time());
        Span { timings: self, stage, outer, began: instant(), cpu, delay, not_send: PhantomData }
    }

    /// The same sink. Its time counts as writing.
    pub fn sink<'t>(&'t self, sink: &'t dyn MatchSink) -> impl MatchSink + 't {
        TimedSink { timings: self, sink }
    }
}

/// A piece of a thread's time.
#[must_use = "it ends when it is dropped"]
pub struct Span<'t> {
    timings: &'t Timings,
    stage: Stage,
    /// The totals of spans that had already ended inside the outer span.
    outer: (Duration, Duration),
    began: Instant,
    cpu: Duration,
    /// The time in the scheduler's queue until the span began, if waits for the disk are told apart.
    delay: Option<Duration>,
    not_send: PhantomData<*const ()>,
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        let time = self.began.elapsed();
        let off = time.saturating_sub(cpu_time().saturating_sub(self.cpu));
        let (inner_time, inner_off) = INNER.replace((self.outer.0 + time, self.outer.1 + off));
        let own = time.saturating_sub(inner_time);
        let waiting = self.delay.map_or(Duration::ZERO, |delay| {
            let queued = queue_time().saturating_sub(delay);
            off.saturating_sub(inner_off).saturating_sub(queued).min(own)
        });
        self.timings.add(Stage::Waiting, waiting);
        self.timings.add(self.stage, own - waiting);
    }
}

struct TimedSink<'t> {
    timings: &'t Timings,
    sink: &'t dyn MatchSink,
}

struct TimedLane<'t> {
    timings: &'t Timings,
    lane: Box<dyn MatchLane + 't>,
}

impl MatchSink for TimedSink<'_> {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        Ok(Box::new(TimedLane { timings: self.timings, lane: self.sink.lane()? }))
    }
}

impl MatchLane for TimedLane<'_> {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let _span = self.timings.span(Stage::Writing);
        self.lane.push(batch)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let _span = self.timings.span(Stage::Writing);
        self.lane.finish()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The processor time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// The time that this thread has waited for a processor. Zero where the system does not tell it.
#[expect(clippy::disallowed_methods, reason = "the system tells by a file")]
fn queue_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.as_deref().and_then(|text| text.split(' ').nth(1)?.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::thread::sleep;

    const LONG: Duration = Duration::from_millis(20);

    fn of(timings: &Timings, stage: Stage) -> Duration {
        timings.times()[stage as usize]
    }

    #[test]
    fn the_inner_span_is_not_in_the_outer_one() {
        let timings = Timings::new(true);
        let all = instant();
        {
            let _outer = timings.span(Stage::Probing);
            for _ in 0..2 {
                let _inner = timings.span(Stage::Population);
                sleep(LONG);
            }
        }
        let all = all.elapsed();
        assert!(of(&timings, Stage::Population) >= LONG * 2);
        let sum: Duration = timings.times().iter().sum();
        assert!(sum <= all, "{sum:?} of {all:?}");
        assert!(of(&timings, Stage::Probing) + of(&timings, Stage::Waiting) <= all - LONG * 2);
    }

    #[test]
    fn blocked_time_of_work_on_files_is_waiting() {
        let (told, untold) = (Timings::new(true), Timings::new(false));
        for timings in [&told, &untold] {
            let _span = timings.span(Stage::Decoding);
            sleep(LONG);
        }
        assert!(of(&told, Stage::Waiting) > Duration::ZERO);
        assert_eq!(of(&untold, Stage::Waiting), Duration::ZERO);
        assert!(of(&untold, Stage::Decoding) >= LONG);
    }

    #[test]
    fn who_takes_rows_slowly_is_waited_for_as_writing() {
        let timings = Timings::new(true);
        let slow = |_| {
            sleep(LONG);
            Ok(())
        };
        {
            let _span = timings.span(Stage::Decoding);
            let sink = timings.sink(&slow);
            let mut lane = sink.lane().unwrap();
            lane.push(RecordBatch::new_empty(crate::match_schema(idmatch_model::Side::Id)))
                .unwrap();
            lane.finish().unwrap();
        }
        assert!(of(&timings, Stage::Writing) >= LONG);
    }
}
