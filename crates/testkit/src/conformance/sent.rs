//! The rows that a match or a scan sends, and how it ends when the receiver refuses them.

use super::compare::Difference;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::Schema;
use idmatch_model::SeenAt;
use idmatch_store::locks::Mutex;
use idmatch_store::{Error, ErrorKind, MatchLane, MatchSink, Result};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A row: its key, which may be a number, its answer and its date.
pub(super) type SentRow<Key> = (Key, String, SeenAt);

/// Reads all rows that `send` sends; a batch with other columns than the schema's is an error.
pub(super) fn read<Key: Send>(
    schema: &Schema,
    keys_of: impl Fn(&ArrayRef) -> Vec<Option<Key>> + Sync,
    send: impl FnOnce(&dyn MatchSink) -> Result<()>,
) -> Result<Vec<SentRow<Key>>> {
    let rows = Mutex::new(Vec::new());
    send(&|batch| {
        let batch = rows_of(&batch, schema, &keys_of)?;
        rows.lock().extend(batch);
        Ok(())
    })?;
    Ok(rows.into_inner())
}

/// The keys of a match by identifiers.
pub(super) fn texts(keys: &ArrayRef) -> Vec<Option<String>> {
    keys.as_string::<i32>().iter().map(|key| key.map(str::to_owned)).collect()
}

fn rows_of<Key>(
    batch: &RecordBatch,
    schema: &Schema,
    keys_of: impl Fn(&ArrayRef) -> Vec<Option<Key>>,
) -> Result<Vec<SentRow<Key>>> {
    let malformed = || {
        let what = format!("a batch was sent with the schema {}", batch.schema_ref());
        Error::new(ErrorKind::InvalidArgument, what)
    };
    let [keys, answers, dates] = batch.columns() else { return Err(malformed()) };
    if **batch.schema_ref() != *schema {
        return Err(malformed());
    }
    let answers: &StringArray = answers.as_string();
    let dates = dates.as_primitive::<TimestampMillisecondType>();
    let row = |((key, answer), date): ((Option<Key>, Option<&str>), Option<i64>)| {
        let (Some(key), Some(answer), Some(date)) = (key, answer, date) else {
            return Err(malformed());
        };
        Ok((key, answer.to_owned(), SeenAt::from_millis(date)?))
    };
    keys_of(keys).into_iter().zip(answers).zip(dates).map(row).collect()
}

/// Checks that an error of the sink ends `send`, which has rows to send and must return this error.
pub(super) fn check_refusal(send: impl FnOnce(&dyn MatchSink) -> Result<()>) -> Option<Difference> {
    let sink = RefusingSink::default();
    let outcome = send(&sink);
    let got = match (outcome, sink.overrun.load(Relaxed)) {
        (Err(error), false) if error.kind() == REFUSAL => return None,
        (outcome, overrun) => format!("{outcome:?}, lanes used after an error: {overrun}"),
    };
    Some(Difference { expected: "the error of the sink".to_owned(), got })
}

const REFUSAL: ErrorKind = ErrorKind::Busy;

/// Refuses each batch, and records a lane that sends another one after that.
#[derive(Default)]
struct RefusingSink {
    overrun: AtomicBool,
}

struct RefusingLane<'a> {
    refused: bool,
    overrun: &'a AtomicBool,
}

impl MatchSink for RefusingSink {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        Ok(Box::new(RefusingLane { refused: false, overrun: &self.overrun }))
    }
}

impl MatchLane for RefusingLane<'_> {
    fn push(&mut self, _: RecordBatch) -> Result<()> {
        self.overrun.fetch_or(self.refused, Relaxed);
        self.refused = true;
        Err(Error::new(REFUSAL, "the sink takes nothing"))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.overrun.fetch_or(self.refused, Relaxed);
        Ok(())
    }
}
