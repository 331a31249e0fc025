//! One observation as a source: what a caller with a single row gives.

use super::{BatchSource, SourceBatch};
use crate::{Error, ErrorKind, Result};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use std::sync::Arc;

/// A source of one row. It is judged like any other; errors call it "the observation".
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
