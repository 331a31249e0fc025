//! The sources of rows: batches of a source, with the row numbers of that source.

use crate::{Error, ErrorKind, Result};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::Field;
use std::sync::Arc;

/// Rows of one source, in its order.
#[derive(Debug, Clone)]
pub struct SourceBatch {
    /// The source of the rows, as the user knows it: a file name.
    pub source: Arc<str>,
    /// The number of the first row in that source, counted from 1.
    pub first_row: u64,
    /// The rows.
    pub batch: RecordBatch,
}

/// Where batches come from.
pub trait BatchSource: Send {
    /// The next batch, or `None` at the end.
    fn next_batch(&mut self) -> Result<Option<SourceBatch>>;
}

pub(super) type NamedColumn<'a> = (&'a Field, &'a ArrayRef);

/// The column of this name.
pub(super) fn column<'a>(source: &'a SourceBatch, name: &str) -> Result<NamedColumn<'a>> {
    let schema = source.batch.schema_ref();
    let found = schema.index_of(name).ok().and_then(|at| {
        schema.fields().get(at).map(|field| (field.as_ref(), source.batch.columns().get(at)))
    });
    match found {
        Some((field, Some(array))) => Ok((field, array)),
        _ => {
            let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "{} has no column {name:?}; its columns are {}",
                    source.source,
                    names.join(", ")
                ),
            ))
        }
    }
}

/// A source of one row. It is judged like any other source; errors call it "the observation".
pub struct OneObservation(Option<SourceBatch>);

impl OneObservation {
    /// The observation that these two were seen together. `seen_at` has one value, of any type
    /// that a column of dates may have.
    ///
    /// # Errors
    /// `InvalidArgument` when `seen_at` has another length.
    pub fn new(id: &str, partner_id: &str, seen_at: ArrayRef) -> Result<OneObservation> {
        let batch = RecordBatch::try_from_iter([
            ("id", Arc::new(StringArray::from(vec![id])) as ArrayRef),
            ("partner_id", Arc::new(StringArray::from(vec![partner_id]))),
            ("seen_at", seen_at),
        ]);
        let what = "an observation has one date";
        let batch = batch.map_err(|e| Error::with_source(ErrorKind::InvalidArgument, what, e))?;
        Ok(OneObservation(Some(SourceBatch {
            source: "the observation".into(),
            first_row: 1,
            batch,
        })))
    }
}

impl BatchSource for OneObservation {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        Ok(self.0.take())
    }
}
