//! Caches values that other clients change.
//!
//! A value is read at most once in half a metadata TTL, and never served when it is older than one. So a
//! change that waits for one TTL after it is published is known to every request that starts later.

use idmatch_store::locks::RwLock;
use idmatch_store::{BackgroundError, BackgroundErrors, Result};
use prometheus_client::metrics::counter::Counter;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::warn;

/// The name of the background work.
const REFRESH: &str = "metadata refresh";
/// After a failed refresh, the next one is tried after this share of the TTL.
const PAUSE_SHARE: u32 = 16;

/// Where a value is read.
pub(crate) trait Origin: Send + Sync + 'static {
    type Value: Send + Sync + 'static;

    /// Reads the value. Parts of it may come from `before`, the value that was read last.
    fn read(
        &self,
        before: Option<&Self::Value>,
    ) -> impl Future<Output = Result<Self::Value>> + Send;
}

/// A value with the moment at which its reading began.
pub(crate) struct Cached<O: Origin> {
    origin: O,
    ttl: Duration,
    held: RwLock<(Arc<O::Value>, Instant)>,
    /// Held while the value is read.
    reading: Mutex<()>,
    /// Held by the task that refreshes in the background, and in its pause.
    refreshing: Arc<Mutex<()>>,
    /// Why the value is not refreshed.
    errors: BackgroundErrors,
    /// Counts all failures, also those that a later success has ended.
    failures: Counter,
}

impl<O: Origin> Cached<O> {
    /// Reads the value for the first time.
    pub(crate) async fn open(
        origin: O,
        ttl: Duration,
        failures: Counter,
    ) -> Result<Arc<Cached<O>>> {
        let began = Instant::now();
        let held = RwLock::new((Arc::new(origin.read(None).await?), began));
        let (reading, refreshing, errors) =
            (Mutex::default(), Arc::default(), BackgroundErrors::default());
        Ok(Arc::new(Cached { origin, ttl, held, reading, refreshing, errors, failures }))
    }

    pub(crate) fn origin(&self) -> &O {
        &self.origin
    }

    /// The time until a published change is known to every client.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The cached value, at most one TTL old.
    pub(crate) async fn current(self: &Arc<Self>) -> Result<Arc<O::Value>> {
        let (value, read_at) = self.held.read().clone();
        let age = read_at.elapsed();
        if age < self.ttl / 2 {
            return Ok(value);
        }
        if age < self.ttl {
            if self.reading.try_lock().is_ok()
                && let Ok(refreshing) = Arc::clone(&self.refreshing).try_lock_owned()
            {
                let cached = Arc::clone(self);
                // A failure surfaces when the TTL is over.
                tokio::spawn(async move {
                    let _refreshing = refreshing;
                    let Err(error) = cached.refresh().await else { return };
                    cached.failures.inc();
                    // Causes may have the text of a server, which may repeat a query.
                    if cached.errors.failed(REFRESH, None, error.to_string()) == 1 {
                        warn!(%error, "metadata is not refreshed");
                    }
                    // The pause keeps nothing of the store.
                    let pause = cached.ttl / PAUSE_SHARE;
                    drop(cached);
                    tokio::time::sleep(pause).await;
                });
            }
            return Ok(value);
        }
        self.refresh().await
    }

    /// Reads the value anew, unless a reading began after this call.
    pub(crate) async fn refresh(&self) -> Result<Arc<O::Value>> {
        let asked = Instant::now();
        let _reading = self.reading.lock().await;
        let (value, read_at) = self.held.read().clone();
        if read_at > asked {
            return Ok(value);
        }
        let began = Instant::now();
        let fresh = Arc::new(self.origin.read(Some(&value)).await?);
        *self.held.write() = (Arc::clone(&fresh), began);
        self.errors.succeeded(REFRESH, None);
        Ok(fresh)
    }

    /// Why the value is not refreshed; `None` if it is.
    pub(crate) fn failing(&self) -> Option<BackgroundError> {
        self.errors.last()
    }

    /// The value that was read last, whatever its age.
    pub(crate) fn held(&self) -> Arc<O::Value> {
        Arc::clone(&self.held.read().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idmatch_store::{Error, ErrorKind};
    use idmatch_testkit::LogCapture;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

    const TTL: Duration = Duration::from_secs(3600);

    /// Counts its readings, and fails while `fails` is set.
    #[derive(Default)]
    struct Numbers {
        next: AtomicU64,
        fails: AtomicBool,
    }

    impl Origin for Numbers {
        type Value = u64;

        async fn read(&self, _: Option<&u64>) -> Result<u64> {
            match self.fails.load(Relaxed) {
                true => Err(Error::new(ErrorKind::Unavailable, "injected failure")),
                false => Ok(self.next.fetch_add(1, Relaxed)),
            }
        }
    }

    #[tokio::test]
    async fn a_refresh_that_fails_is_told_until_one_succeeds() {
        let (failures, log) = (Counter::default(), LogCapture::new());
        let cached = Cached::open(Numbers::default(), TTL, failures.clone()).await.unwrap();
        let grow_old = |age| cached.held.write().1 = Instant::now() - age;
        cached.origin().fails.store(true, Relaxed);
        assert_eq!(*cached.current().await.unwrap(), 0);
        assert!(cached.failing().is_none());
        // Refreshed in the background, and served meanwhile.
        grow_old(TTL * 3 / 4);
        assert_eq!(*cached.current().await.unwrap(), 0);
        while cached.failing().is_none() {
            tokio::task::yield_now().await;
        }
        // It is tried again after a pause.
        for _ in 0..1_000 {
            assert_eq!(*cached.current().await.unwrap(), 0);
            tokio::task::yield_now().await;
        }
        let failing = cached.failing().unwrap();
        assert_eq!((failing.work, failing.failures, failures.get()), (REFRESH, 1, 1));
        assert!(failing.error.contains("injected failure"), "{failing:?}");
        assert_eq!(log.take("metadata"), ["WARN metadata is not refreshed error=injected failure"]);
        // Too old to be served.
        grow_old(TTL * 2);
        assert_eq!(cached.current().await.unwrap_err().kind(), ErrorKind::Unavailable);
        cached.origin().fails.store(false, Relaxed);
        assert_eq!(*cached.current().await.unwrap(), 1);
        assert!(cached.failing().is_none());
    }
}
