//! Locks, atomics, threads and the clock of waits. Everything else in this crate takes them from here.
//!
//! Locks that are held while others are taken have a [`Rank`]. A thread takes them in ascending order of
//! rank; debug builds assert that. Locks without a rank are leaves: a thread that holds one takes no other.
//! Must not know what the locks protect.
#![allow(clippy::disallowed_methods, reason = "the door to threads and the clock")]

pub(crate) use idmatch_store::locks::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::time::Instant;

use arc_swap::ArcSwapOption;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// The longest time between two checks of a thread that waits for a lock as long as it may.
const BETWEEN_CHECKS: Duration = Duration::from_millis(10);

/// The order in which locks are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// The stores that are open in this process.
    Handles,
    /// The commit of a session that several processes stage.
    SharedSession,
    /// The commit of a write session.
    Session,
    /// An erasure, or the sorting of a bulk load; one of each at a time.
    Operation,
    /// The journal's writer.
    Writer,
    /// A compaction.
    Compaction,
    /// The slot of the writer lock.
    WriterLock,
    /// A change of the manifest or of the current version.
    Publish,
    /// Batches that wait for a group commit.
    CommitQueue,
}

/// A mutex with a rank. One of the waiting threads has the turnstile, and is next: a thread that takes the
/// lock again and again comes after it. A thread that waited for a condition does without the turnstile.
#[derive(Debug)]
pub(crate) struct RankedMutex<T> {
    rank: Rank,
    turnstile: Mutex<()>,
    inner: Mutex<T>,
}

impl<T> RankedMutex<T> {
    pub(crate) const fn new(rank: Rank, value: T) -> RankedMutex<T> {
        RankedMutex { rank, turnstile: Mutex::new(()), inner: Mutex::new(value) }
    }

    /// Waits for the lock.
    pub(crate) fn lock(&self) -> RankedGuard<'_, T> {
        let held = Held::new(self.rank);
        let _next = self.turnstile.lock();
        RankedGuard { inner: self.inner.lock(), _held: held }
    }

    /// Waits for the lock as long as `check` has no error. `check` is called many times in 100 ms.
    pub(crate) fn lock_while<E>(
        &self,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<RankedGuard<'_, T>, E> {
        let held = Held::new(self.rank);
        let _next = lock_while(&self.turnstile, &check)?;
        Ok(RankedGuard { inner: lock_while(&self.inner, &check)?, _held: held })
    }

    /// Whether a thread waits for the lock: long work that holds it should end. Only the holder asks.
    pub(crate) fn is_awaited(&self) -> bool {
        self.turnstile.try_lock().is_none()
    }

    /// Takes the lock unless another thread has it, or waits for it.
    pub(crate) fn try_lock(&self) -> Option<RankedGuard<'_, T>> {
        let inner = self.inner.try_lock()?;
        let _nobody_waits = self.turnstile.try_lock()?;
        Some(RankedGuard { inner, _held: Held::new(self.rank) })
    }
}

/// Waits for a lock as long as `check` has no error.
fn lock_while<T, E>(
    lock: &Mutex<T>,
    check: impl Fn() -> Result<(), E>,
) -> Result<MutexGuard<'_, T>, E> {
    let mut pause = Duration::from_micros(100);
    loop {
        check()?;
        if let Some(guard) = lock.try_lock() {
            return Ok(guard);
        }
        sleep(pause);
        pause = BETWEEN_CHECKS.min(pause * 2);
    }
}

/// A value that each process has for itself, so that a fork waits for no lock of its parent's threads.
pub(crate) struct PerProcess<T>(ArcSwapOption<(u32, T)>);

impl<T: Default> PerProcess<T> {
    pub(crate) const fn new() -> PerProcess<T> {
        PerProcess(ArcSwapOption::const_empty())
    }

    /// The value of this process.
    pub(crate) fn get(&self) -> Arc<(u32, T)> {
        let this = std::process::id();
        loop {
            let found = self.0.load_full();
            match found {
                Some(found) if found.0 == this => return found,
                found => {
                    let new = Some(Arc::new((this, T::default())));
                    // A value of the parent process is never dropped here.
                    std::mem::forget(found.clone());
                    self.0.compare_and_swap(&found, new);
                }
            }
        }
    }
}

/// A ranked mutex, locked.
pub(crate) struct RankedGuard<'a, T> {
    inner: MutexGuard<'a, T>,
    _held: Held,
}

impl<T> RankedGuard<'_, T> {
    /// Releases the lock until the condition is signalled.
    pub(crate) fn wait(self, condition: &Condvar) -> Self {
        RankedGuard { inner: condition.wait(self.inner), _held: self._held }
    }

    /// Releases the lock until the condition is signalled or the time is over.
    pub(crate) fn wait_for(self, condition: &Condvar, time: Duration) -> Self {
        RankedGuard { inner: condition.wait_for(self.inner, time), _held: self._held }
    }
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// Says that this thread holds a lock of a rank. Costs nothing in release builds.
struct Held {
    #[cfg(debug_assertions)]
    rank: Rank,
}

#[cfg(debug_assertions)]
thread_local! {
    static RANKS: std::cell::RefCell<Vec<Rank>> = const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(debug_assertions)]
impl Held {
    fn new(rank: Rank) -> Held {
        RANKS.with_borrow_mut(|held| {
            let is_in_order = held.iter().all(|other| *other < rank);
            assert!(is_in_order, "a lock of rank {rank:?} is taken while {held:?} are held");
            held.push(rank);
        });
        Held { rank }
    }
}

#[cfg(debug_assertions)]
impl Drop for Held {
    fn drop(&mut self) {
        RANKS.with_borrow_mut(|held| {
            if let Some(at) = held.iter().rposition(|other| *other == self.rank) {
                held.remove(at);
            }
        });
    }
}

#[cfg(not(debug_assertions))]
impl Held {
    #[inline(always)]
    fn new(_rank: Rank) -> Held {
        Held {}
    }
}

/// Starts a detached thread.
///
/// # Errors
/// The error of the system, if it starts no more threads.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// The present time of the monotonic clock.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// The milliseconds since `began`.
pub(crate) fn millis(began: Instant) -> u64 {
    began.elapsed().as_millis() as u64
}

/// Has this thread sleep.
pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascending_ranks_are_fine() {
        let (writer, publish) =
            (RankedMutex::new(Rank::Writer, 1), RankedMutex::new(Rank::Publish, 2));
        let first = writer.lock();
        let second = publish.lock();
        // Released in any order.
        drop(first);
        drop(second);
        assert!(publish.try_lock().is_some());
        assert_eq!(*writer.lock(), 1);
    }

    #[test]
    fn a_thread_that_waits_is_next() {
        let lock = RankedMutex::new(Rank::Compaction, 0);
        let wait = || lock.lock();
        let wait_while = || lock.lock_while(|| Ok::<(), ()>(())).unwrap();
        for round in 1..=100 {
            std::thread::scope(|scope| {
                let held = lock.lock();
                scope.spawn(|| *(if round % 2 == 0 { wait() } else { wait_while() }) = round);
                while !lock.is_awaited() {
                    std::thread::yield_now();
                }
                drop(held);
                assert!(lock.try_lock().is_none_or(|value| *value == round));
                assert_eq!(*lock.lock(), round);
            });
        }
        assert_eq!(lock.lock_while(|| Err("given up")).err(), Some("given up"));
        assert!(lock.try_lock().is_some());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a lock of rank Writer is taken while [Publish] are held")]
    fn descending_ranks_panic() {
        let (writer, publish) =
            (RankedMutex::new(Rank::Writer, ()), RankedMutex::new(Rank::Publish, ()));
        let _publish = publish.lock();
        let _writer = writer.lock();
    }
}
