//! The sources that backends pull judged rows from.
//!
//! Invariant: a source's lock is held while a batch is pulled, never while its rows are read. So threads
//! that pull from one source judge at the same time.

use super::judge::Ingest;
use super::observations::{Observations, stored};
use super::source::{BatchSource, SourceBatch};
use crate::Result;
use crate::locks::Mutex;

/// Judged rows, batch by batch, for any number of threads at once.
pub trait ObservationSource: Sync {
    /// The next rows, or `None` after the last. A batch may be empty.
    ///
    /// # Errors
    /// The errors of the source and of the judging. After an error, rows may be missing.
    fn next_batch(&self) -> Result<Option<Observations>>;

    /// Whether a bad row is an error, which may come at any time before the end. A load must then publish
    /// nothing before the end.
    fn is_strict(&self) -> bool {
        false
    }

    /// Bad rows so far.
    fn rejected(&self) -> u64 {
        0
    }
}

impl Ingest<'_> {
    /// The good rows of a source. Bad rows are counted and reported as by [`Ingest::observations`].
    pub fn judged<'s>(&'s self, source: &'s mut dyn BatchSource) -> impl ObservationSource + 's {
        Pulled {
            source: Mutex::new(source),
            read: |batch: &SourceBatch| self.observations(batch),
            rejected: || self.rejected(),
            is_strict: self.is_strict(),
        }
    }
}

/// Rows that a store has already: no clock judges them again. A malformed row is `Corrupt`.
pub fn stored_rows(source: &mut dyn BatchSource) -> impl ObservationSource {
    Pulled { source: Mutex::new(source), read: stored, rejected: || 0, is_strict: false }
}

/// Batches of a source, each read by the thread that pulls it.
struct Pulled<'s, F, R> {
    source: Mutex<&'s mut dyn BatchSource>,
    read: F,
    rejected: R,
    is_strict: bool,
}

impl<F, R> ObservationSource for Pulled<'_, F, R>
where
    F: Fn(&SourceBatch) -> Result<Observations> + Sync,
    R: Fn() -> u64 + Sync,
{
    fn next_batch(&self) -> Result<Option<Observations>> {
        let next = self.source.lock().next_batch()?;
        next.as_ref().map(&self.read).transpose()
    }

    fn is_strict(&self) -> bool {
        self.is_strict
    }

    fn rejected(&self) -> u64 {
        (self.rejected)()
    }
}
