//! Group commit: threads bring batches; one of them leads and commits all that wait together. While it
//! waits for the disk, the next group gathers. Must not know the journal or memtables.

use crate::identity::Identity;
use crate::sync::{Condvar, Mutex, Rank, RankedMutex};
use idmatch_store::{Durability, Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// A commit takes no more batches than this many bytes.
const COMMIT_BYTES: usize = 64 << 20;

/// Batches that wait for a leader.
pub(crate) struct GroupCommit {
    queue: RankedMutex<CommitQueue>,
    /// Signalled when a leader is done.
    led: Condvar,
}

#[derive(Default)]
struct CommitQueue {
    waiting: Vec<Arc<PendingCommit>>,
    is_led: bool,
}

/// A batch and its outcome.
pub(crate) struct PendingCommit {
    pub(crate) batch: Batch,
    outcome: Mutex<Option<Result<()>>>,
}

/// Encoded rows of one table.
pub(crate) struct Batch {
    pub(crate) table: Identity,
    pub(crate) durability: Durability,
    pub(crate) count: u32,
    pub(crate) rows: Vec<u8>,
}

impl PendingCommit {
    /// Ends the commit of this batch with an error, whatever the outcome of its group.
    pub(crate) fn refuse(&self, error: Error) {
        *self.outcome.lock() = Some(Err(error));
    }
}

impl CommitQueue {
    /// The batches of the next commit, oldest first: one at least.
    fn next_group(&mut self) -> Vec<Arc<PendingCommit>> {
        let mut bytes = 0;
        let fitting = self.waiting.iter().take_while(|pending| {
            bytes += pending.batch.rows.len();
            bytes <= COMMIT_BYTES
        });
        let count = fitting.count().max(1).min(self.waiting.len());
        self.waiting.drain(..count).collect()
    }
}

impl GroupCommit {
    pub(crate) fn new() -> GroupCommit {
        let queue = RankedMutex::new(Rank::CommitQueue, CommitQueue::default());
        GroupCommit { queue, led: Condvar::new() }
    }

    /// Commits a batch together with batches of other threads. `lead` commits a group. `give_up` is called
    /// after `lead` panicked, and returns the error for the other threads of the group.
    pub(crate) fn commit(
        &self,
        batch: Batch,
        lead: impl Fn(&[Arc<PendingCommit>]) -> Result<()>,
        give_up: impl Fn() -> Error,
    ) -> Result<()> {
        let own = Arc::new(PendingCommit { batch, outcome: Mutex::new(None) });
        let mut queue = self.queue.lock();
        queue.waiting.push(own.clone());
        loop {
            if let Some(outcome) = own.outcome.lock().take() {
                return outcome;
            }
            if queue.is_led {
                queue = queue.wait(&self.led);
                continue;
            }
            queue.is_led = true;
            let group = queue.next_group();
            drop(queue);
            // The panic goes on in this thread; the others get an error.
            let ended = catch_unwind(AssertUnwindSafe(|| lead(&group)));
            let given_up = ended.is_err().then(&give_up);
            for member in &group {
                let outcome = ended.as_ref().ok().and_then(|outcome| outcome.as_ref().err());
                let told = given_up.as_ref().or(outcome).map_or(Ok(()), Err);
                let told = told.map_err(Error::copied);
                member.outcome.lock().get_or_insert(told);
            }
            self.queue.lock().is_led = false;
            // Woken threads want the lock.
            self.led.notify_all();
            if let Err(panic) = ended {
                resume_unwind(panic);
            }
            if let Some(outcome) = own.outcome.lock().take() {
                return outcome;
            }
            queue = self.queue.lock();
        }
    }
}
