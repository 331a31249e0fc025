//! A disk of this process that says when a mapped file is read.

use super::hooked_disk::{HookedDisk, Hooks};
use idmatch_engine::disk::Mapped;
use idmatch_store::locks::Mutex;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The flag that the next read sets.
type Next = Arc<Mutex<Option<Arc<AtomicBool>>>>;

/// Sets a flag at a read of a mapped file.
#[derive(Debug, Default)]
pub(crate) struct Watched(Next);

/// Real files that are watched.
pub(crate) type WatchedDisk = HookedDisk<Watched>;

impl WatchedDisk {
    /// Sets the flag at the next read.
    pub(crate) fn set_at_next_read(&self, flag: &Arc<AtomicBool>) {
        *self.0.0.lock() = Some(flag.clone());
    }
}

impl Hooks for Watched {
    const IS_SHARED: bool = true;

    fn mapped(&self, map: Arc<dyn Mapped>) -> Arc<dyn Mapped> {
        Arc::new(WatchedMap { map, next: self.0.clone() })
    }
}

struct WatchedMap {
    map: Arc<dyn Mapped>,
    next: Next,
}

impl Mapped for WatchedMap {
    fn bytes(&self) -> &[u8] {
        if let Some(flag) = self.next.lock().take() {
            flag.store(true, Relaxed);
        }
        self.map.bytes()
    }

    fn populate(&self, range: Range<usize>) -> io::Result<()> {
        self.map.populate(range)
    }

    fn give_back(&self, range: Range<usize>) {
        self.map.give_back(range);
    }
}
