//! Group commit: threads bring batches; one of them leads and takes all that wait as one commit. While
//! it waits for the disk the next commit gathers. Must not know journal or memtables.

use super::shared::Shared;
use crate::workers::lock;
use idmatch_model::TableName;
use idmatch_store::{Durability, Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// A commit takes no more batches than this many bytes.
const COMMIT_BYTES: usize = 64 << 20;

/// Batches that wait for a leader.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Vec<Arc<Ticket>>,
    is_led: bool,
}

/// A batch and what became of it.
pub(super) struct Ticket {
    pub(super) batch: Batch,
    outcome: Mutex<Option<Result<()>>>,
}

pub(super) struct Batch {
    pub(super) table: TableName,
    pub(super) durability: Durability,
    pub(super) count: u32,
    pub(super) rows: Vec<u8>,
}

impl Queue {
    /// The batches of the next commit, oldest first: one at least.
    fn next_group(&mut self) -> Vec<Arc<Ticket>> {
        let mut bytes = 0;
        let fitting = self.waiting.iter().take_while(|ticket| {
            bytes += ticket.batch.rows.len();
            bytes <= COMMIT_BYTES
        });
        let count = fitting.count().max(1).min(self.waiting.len());
        self.waiting.drain(..count).collect()
    }
}

impl Shared {
    /// Makes a batch durable and visible, together with those of other threads.
    pub(super) fn commit(self: &Arc<Shared>, batch: Batch) -> Result<()> {
        self.check_writable()?;
        let ticket = Arc::new(Ticket { batch, outcome: Mutex::new(None) });
        let mut queue = lock(&self.queue);
        queue.waiting.push(ticket.clone());
        loop {
            if let Some(outcome) = lock(&ticket.outcome).take() {
                return outcome;
            }
            if queue.is_led {
                queue = self.turn.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.is_led = true;
            let group = queue.next_group();
            drop(queue);
            // A panic is for this thread; the others are told.
            let ended = catch_unwind(AssertUnwindSafe(|| self.commit_group(&group)));
            let given_up = ended.is_err().then(|| self.give_up());
            for member in &group {
                let outcome = ended.as_ref().ok().and_then(|outcome| outcome.as_ref().err());
                let told = given_up.as_ref().or(outcome).map_or(Ok(()), Err);
                let told = told.map_err(|e| Error::new(e.kind(), e.chain()));
                *lock(&member.outcome) = Some(told);
            }
            queue = lock(&self.queue);
            queue.is_led = false;
            self.turn.notify_all();
            if let Err(panic) = ended {
                drop(queue);
                resume_unwind(panic);
            }
        }
    }

    /// After a panic nobody knows how far the writing got, so there is no more of it.
    fn give_up(&self) -> Error {
        let why = "a thread panicked while it wrote";
        if let Some(writer) = lock(&self.writer).as_mut() {
            writer.failed.get_or_insert_with(|| why.to_owned());
        }
        self.read_only(why)
    }
}
