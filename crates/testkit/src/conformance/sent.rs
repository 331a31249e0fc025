//! The rows that a match sends.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use idmatch_model::SeenAt;
use idmatch_store::{Error, ErrorKind, Match, MatchQuery, Result};
use std::sync::{Mutex, PoisonError};

/// A row: its key, which may be a number, its answer and its date.
pub(super) type SentRow<Key> = (Key, String, SeenAt);

/// Reads all rows of a match; a batch with other columns than the query's is an error.
pub(super) fn read<Key: Send>(
    matched: &dyn Match,
    query: &MatchQuery,
    keys_of: impl Fn(&ArrayRef) -> Vec<Option<Key>> + Sync,
) -> Result<Vec<SentRow<Key>>> {
    let rows = Mutex::new(Vec::new());
    matched.write(&|batch| {
        let batch = rows_of(&batch, query, &keys_of)?;
        rows.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
        Ok(())
    })?;
    Ok(rows.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The keys of a match by identifiers.
pub(super) fn texts(keys: &ArrayRef) -> Vec<Option<String>> {
    keys.as_string::<i32>().iter().map(|key| key.map(str::to_owned)).collect()
}

fn rows_of<Key>(
    batch: &RecordBatch,
    query: &MatchQuery,
    keys_of: impl Fn(&ArrayRef) -> Vec<Option<Key>>,
) -> Result<Vec<SentRow<Key>>> {
    let malformed = || {
        let what = format!("a match gave a batch with the schema {}", batch.schema_ref());
        Error::new(ErrorKind::InvalidArgument, what)
    };
    let [keys, answers, dates] = batch.columns() else { return Err(malformed()) };
    if *batch.schema_ref() != query.schema() {
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
