//! What ingest makes of every type of column, and how it reports what it does not take.

mod dates;
mod ids;
mod rejects;
mod row_numbers;
mod sources;

use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, TimestampMillisecondArray,
};
use arrow_schema::{Field, Schema};
use idmatch_model::SeenAt;
use idmatch_store::{Error, Ingest, Observations, Reject, RejectSink, Result, SourceBatch};
use std::sync::Arc;

/// The clock of these tests: 2026-03-02T00:00:00Z.
const NOW: &str = "2026-03-02";

/// What was taken and what was not.
#[derive(Debug)]
struct Outcome {
    /// (id, partner_id, seen_at) of the rows taken.
    rows: Vec<(String, String, String)>,
    /// (row, column, reason) of the others.
    rejects: Vec<(u64, &'static str, String)>,
}

#[derive(Default)]
struct Rejects(Vec<Reject>);

impl RejectSink for Rejects {
    fn reject(&mut self, rejects: Vec<Reject>) -> Result<()> {
        self.0.extend(rejects);
        Ok(())
    }
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn some_dates(rows: usize) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from(vec![0; rows]))
}

fn partner_ids(rows: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(1..=rows as i64))
}

fn source_of(columns: Vec<(Field, ArrayRef)>) -> SourceBatch {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let rows = arrays.first().map_or(0, |array| array.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new_with_options(schema, arrays, &options).unwrap();
    SourceBatch { source: "matches.parquet".into(), first_row: 1, batch }
}

fn field(name: &str, array: &ArrayRef) -> Field {
    Field::new(name, array.data_type().clone(), true)
}

fn columns(id: ArrayRef, partner_id: ArrayRef, seen_at: ArrayRef) -> SourceBatch {
    let named = [("id", id), ("partner_id", partner_id), ("seen_at", seen_at)];
    source_of(named.into_iter().map(|(name, array)| (field(name, &array), array)).collect())
}

fn ingest(source: &SourceBatch) -> Result<Outcome, Error> {
    let mut rejects = Rejects::default();
    let ingest = Ingest::new(false, SeenAt::parse(NOW).unwrap(), &mut rejects);
    let observations = ingest.observations(source)?;
    let (rows, rejected) = (ingest.rows(), ingest.rejected());
    let rejects = rejects.0.into_iter().map(|r| (r.row, r.column, r.reason)).collect::<Vec<_>>();
    assert_eq!(rows, source.batch.num_rows() as u64);
    assert_eq!(rejected, rejects.len() as u64);
    assert_eq!(rows, rejected + observations.len() as u64);
    Ok(Outcome { rows: rows_of(&observations), rejects })
}

fn rows_of(observations: &Observations) -> Vec<(String, String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let pairs = observations.ids.iter().zip(observations.partner_ids.iter());
    pairs
        .zip(&observations.seen_at)
        .map(|((id, partner_id), seen_at)| (text(id), text(partner_id), seen_at.to_string()))
        .collect()
}
