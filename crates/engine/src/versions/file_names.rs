//! Names of new segment and tombstone files, and the names that one operation took.

use crate::file_name::file_name;
use crate::sync::Mutex;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Gives every file of a store a name of its own.
pub(crate) struct FileNames<'a> {
    next: &'a AtomicU64,
    taken: Mutex<Vec<String>>,
}

impl<'a> FileNames<'a> {
    pub(crate) fn new(next: &'a AtomicU64) -> FileNames<'a> {
        FileNames { next, taken: Mutex::default() }
    }

    /// A name for a segment that no file ever had.
    pub(crate) fn take(&self) -> String {
        self.take_for("seg")
    }

    /// A name that no file ever had, with this ending.
    pub(crate) fn take_for(&self, ending: &str) -> String {
        let name = file_name(self.next.fetch_add(1, Relaxed), ending);
        self.taken.lock().push(name.clone());
        name
    }

    /// All names that were taken here.
    pub(crate) fn taken(&self) -> Vec<String> {
        self.taken.lock().clone()
    }
}
