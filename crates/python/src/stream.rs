//! A bounded channel of batches, from one writer thread to one reader. `rows` gives it to Python as an
//! Arrow C stream.
//!
//! Must not know Python, nor where the rows come from. Invariants: at most four batches wait, so a slow
//! reader holds the writer back. The reader sees an end only if the writer sent one, so a panic of the
//! writer is an error. A reader that is dropped ends the writer at its next batch.

use crate::forks::Process;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use idmatch_store::{Error, ErrorKind, Result};
use std::sync::mpsc::{Receiver, sync_channel};

/// Most batches that wait for the reader. This bounds the memory of a stream.
const WAITING_BATCHES: usize = 4;

/// The function by which the writer sends a batch.
pub(crate) type Send<'a> = dyn Fn(RecordBatch) -> Result<()> + Sync + 'a;

/// Reads the batches of a writer thread. Its drop ends the thread at the next batch.
pub(crate) struct BatchStream {
    schema: SchemaRef,
    /// `None` is the end. A closed channel without it means that the writer failed.
    messages: Receiver<Result<Option<RecordBatch>>>,
    has_ended: bool,
    /// A fork has no writer thread.
    process: Process,
}

impl BatchStream {
    /// Starts a thread that runs `write`. Fails when the system gives no thread.
    pub(crate) fn start(
        schema: SchemaRef,
        write: impl FnOnce(&Send<'_>) -> Result<()> + std::marker::Send + 'static,
    ) -> Result<BatchStream> {
        let (sender, messages) = sync_channel(WAITING_BATCHES);
        let run = move || {
            let send = |batch| {
                let reader_is_gone =
                    |_| Error::new(ErrorKind::InvalidArgument, "the reader of a match is gone");
                sender.send(Ok(Some(batch))).map_err(reader_is_gone)
            };
            let end = write(&send).map(|()| None);
            // The reader may be gone; then it needs no end.
            sender.send(end).ok();
        };
        let spawned = std::thread::Builder::new().name("row-stream".into()).spawn(run);
        spawned.map_err(|e| {
            let text = "cannot start a thread that reads rows; free threads or memory";
            Error::with_source(ErrorKind::Io, text, e)
        })?;
        Ok(BatchStream { schema, messages, has_ended: false, process: Process::this() })
    }
}

impl Iterator for BatchStream {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        if let Err(e) = self.process.check() {
            self.has_ended = true;
            return Some(Err(ArrowError::ExternalError(Box::new(e))));
        }
        let panicked = |_| {
            let text =
                "idmatch failed while it sent rows; those so far are not all; please report this";
            Err(Error::new(ErrorKind::Internal, text))
        };
        let next = self.messages.recv().unwrap_or_else(panicked).transpose();
        self.has_ended = !matches!(next, Some(Ok(_)));
        next.map(|batch| batch.map_err(|e| ArrowError::ExternalError(Box::new(e))))
    }
}

impl RecordBatchReader for BatchStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
