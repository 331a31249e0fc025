//! Counts the requests of one piece of work, such as a match. Must not know what they ask.
//!
//! The counts belong to the task that sends, so requests of other work are not in them.

use idmatch_store::Requests;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

tokio::task_local! {
    static COUNTS: Arc<RequestCounts>;
}

/// The pages and partitions that were asked and answered so far, and the attempts that were repeated.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts {
    asked: AtomicU64,
    answered: AtomicU64,
    repeated: AtomicU64,
    partitions_asked: AtomicU64,
    partitions_answered: AtomicU64,
}

impl RequestCounts {
    /// Counts the pages that a task reads.
    pub(crate) async fn count<F: Future>(self: Arc<Self>, work: F) -> F::Output {
        COUNTS.scope(self, work).await
    }

    /// The counts, without the limits.
    pub(crate) fn so_far(&self) -> Requests {
        Requests {
            asked: self.asked.load(Relaxed),
            answered: self.answered.load(Relaxed),
            repeated: self.repeated.load(Relaxed),
            partitions_asked: self.partitions_asked.load(Relaxed),
            partitions_answered: self.partitions_answered.load(Relaxed),
            ..Requests::default()
        }
    }
}

/// Counts a page that this task asks for.
pub(super) fn asked(is_first_page: bool) {
    with(|counts| {
        counts.asked.fetch_add(1, Relaxed);
        counts.partitions_asked.fetch_add(is_first_page.into(), Relaxed);
    });
}

/// Counts the answer to such a page, after this number of attempts.
pub(super) fn answered(is_first_page: bool, attempts: u64) {
    with(|counts| {
        counts.answered.fetch_add(1, Relaxed);
        counts.repeated.fetch_add(attempts.saturating_sub(1), Relaxed);
        counts.partitions_answered.fetch_add(is_first_page.into(), Relaxed);
    });
}

fn with(count: impl FnOnce(&RequestCounts)) {
    // Outside of `RequestCounts::count` nothing is counted.
    COUNTS.try_with(|counts| count(counts)).ok();
}
