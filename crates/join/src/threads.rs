//! Threads that work off numbered tasks. Must not know what the work is.

use idmatch_store::Result;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{Builder, available_parallelism, scope};

/// Works off the tasks `0..tasks` in order, on a thread for each processor. After an error no new task is started.
/// Each thread has a state of its own, from before its first task until after its last one.
pub(crate) fn for_each<S>(
    tasks: usize,
    start: impl Fn() -> Result<S> + Sync,
    work: impl Fn(&mut S, usize) -> Result<()> + Sync,
    end: impl Fn(S) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work_off = || {
        let mut state = start()?;
        loop {
            let task = next.fetch_add(1, Relaxed);
            if task >= tasks {
                return end(state);
            }
            work(&mut state, task).inspect_err(|_| next.store(tasks, Relaxed))?;
        }
    };
    let threads = available_parallelism().map_or(1, usize::from).min(tasks);
    scope(|scope| {
        // Where the system gives no thread, this one does the work alone.
        let helpers: Vec<_> =
            (1..threads).map_while(|_| Builder::new().spawn_scoped(scope, work_off).ok()).collect();
        let mut outcome = work_off();
        for helper in helpers {
            let ended = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = outcome.and(ended);
        }
        outcome
    })
}
