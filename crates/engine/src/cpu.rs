//! Processors: threads that work off a list, their priority, and prefetching.
//!
//! Must not know what the work is.
#![allow(clippy::disallowed_methods, reason = "the door to scoped threads")]

use crate::sync::Ordering::Relaxed;
use crate::sync::{self, AtomicBool, AtomicUsize, Instant, Mutex};
use idmatch_store::Result;
use std::sync::OnceLock;
use std::time::Duration;
use tracing::debug;

/// The nice value of background threads: all of an idle processor, about a tenth of a contended one. With 5
/// a late lookup still had to wait for the end of a time slice.
const BACKGROUND_NICE: i32 = 10;

/// Background work has low priority for this long after foreground work. A process that only loads or
/// matches keeps its priority.
const FOREGROUND_RECENTLY: Duration = Duration::from_secs(10);

/// Whether there was foreground work since the last check.
static FOREGROUND: AtomicBool = AtomicBool::new(false);

/// How many threads can work at once: one for each processor.
pub(crate) fn count() -> usize {
    // Asking the system reads several files, which takes longer than a small match.
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Notes foreground work: a lookup or an upsert.
#[inline]
pub(crate) fn note_foreground() {
    // Usually it is noted already, and the cache line stays shared.
    if !FOREGROUND.load(Relaxed) {
        FOREGROUND.store(true, Relaxed);
    }
}

fn had_foreground_recently() -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    // Another thread has the lock, or a thread of the parent had it when this process was forked.
    let Some(mut last) = LAST.try_lock() else { return FOREGROUND.load(Relaxed) };
    if FOREGROUND.swap(false, Relaxed) {
        *last = Some(sync::instant());
    }
    last.is_some_and(|last| last.elapsed() < FOREGROUND_RECENTLY)
}

/// Lowers the priority of this thread for the rest of its life.
pub(crate) fn lower_priority() {
    // If the system refuses, nothing changes.
    if let Err(error) = rustix::process::nice(BACKGROUND_NICE) {
        debug!(%error, "the system refuses a lower priority");
    }
}

/// Runs `work` on several threads, each with its number. They are new threads, because a thread cannot raise
/// its priority again. If the system starts fewer threads, these do all the work; if it starts none, the
/// calling thread does. The first error is returned after all threads have ended.
pub(crate) fn on_each_thread<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if threads <= 1 {
        return Ok(vec![work(0)?]);
    }
    let is_background = had_foreground_recently();
    std::thread::scope(|scope| {
        let work = &work;
        let start = |number| {
            let run = move || {
                if is_background {
                    lower_priority();
                }
                work(number)
            };
            std::thread::Builder::new().spawn_scoped(scope, run).ok()
        };
        let started: Vec<_> = (0..threads).map_while(start).collect();
        if started.is_empty() {
            return Ok(vec![work(0)?]);
        }
        let ended: Vec<_> = started.into_iter().map(|thread| thread.join()).collect();
        ended
            .into_iter()
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Works off `tasks` in order on several threads. After an error no new task is started.
pub(crate) fn for_each<T: Sync>(
    threads: usize,
    tasks: &[T],
    work: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    for_each_with(threads, tasks, || Ok(()), |(), task| work(task), |()| Ok(()))
}

/// The same, where each thread has a state of its own, from before its first task until after
/// its last one. After an error the states are dropped without `end`.
pub(crate) fn for_each_with<T: Sync, S>(
    threads: usize,
    tasks: &[T],
    start: impl Fn() -> Result<S> + Sync,
    work: impl Fn(&mut S, &T) -> Result<()> + Sync,
    end: impl Fn(S) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    on_each_thread(threads.min(tasks.len()), |_| {
        let mut state = start()?;
        while let Some(task) = tasks.get(next.fetch_add(1, Relaxed)) {
            work(&mut state, task).inspect_err(|_| next.store(tasks.len(), Relaxed))?;
        }
        end(state)
    })?;
    Ok(())
}

/// Starts fetching the cache line at `offset`; outside of `bytes` it does nothing.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8], offset: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(byte) = bytes.get(offset) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing; the address is inside a live slice; SSE is part
        // of every x86-64.
        #[allow(unsafe_code, reason = "there is no safe prefetch")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, offset);
}
