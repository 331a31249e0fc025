//! Threads that work off a list.

use idmatch_store::Result;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// By how much long work stands back: all there is of a processor that nobody else wants, else a
/// tenth. With 5 a lookup that had to wait, and is late with the next ones, was still made to wait for the end of a turn.
const LONG_WORK_NICE: i32 = 10;

/// Long work stands back where there was short work so lately. A process that only loads or
/// matches gives way to nobody.
const SHORT_WORK_LATELY: Duration = Duration::from_secs(10);

/// Whether there was short work since that was asked.
static SHORT_WORK: AtomicBool = AtomicBool::new(false);

/// How many threads can work at once: one for each processor.
pub(crate) fn count() -> usize {
    // Asking the system reads several files, which takes longer than a small match.
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Locks what threads share. A panic elsewhere is passed on by the thread that joins it, so
/// what it left behind is never used.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, unless another thread has it.
pub(crate) fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Notes that somebody needs a processor for a moment, and soon: for a lookup or an upsert.
#[inline]
pub(crate) fn note_short_work() {
    // Most find it noted, and write nothing that other threads read.
    if !SHORT_WORK.load(Relaxed) {
        SHORT_WORK.store(true, Relaxed);
    }
}

fn was_short_work_lately() -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = lock(&LAST);
    if SHORT_WORK.swap(false, Relaxed) {
        *last = Some(Instant::now());
    }
    last.is_some_and(|last| last.elapsed() < SHORT_WORK_LATELY)
}

/// Has this thread stand back when others want the processor, for as long as it lives.
pub(crate) fn stand_back() {
    // Where that is refused nothing changes.
    rustix::process::nice(LONG_WORK_NICE).ok();
}

/// Runs `work` on so many threads; each gets its number. Several are others than this one, because
/// to stand back for short work is nothing that a thread could undo. The first error is returned, after all
/// have ended.
pub(crate) fn on_each_thread<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if threads <= 1 {
        return Ok(vec![work(0)?]);
    }
    let stands_back = was_short_work_lately();
    std::thread::scope(|scope| {
        let work = &work;
        let start = |number| {
            scope.spawn(move || {
                if stands_back {
                    stand_back();
                }
                work(number)
            })
        };
        let started: Vec<_> = (0..threads).map(start).collect();
        let ended: Vec<_> = started.into_iter().map(|thread| thread.join()).collect();
        ended
            .into_iter()
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Works off `tasks` in order on so many threads. After an error no new task is started.
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
