//! Populations and match rows, as they are in Parquet files.

use crate::Failure;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{RecordBatch, StringArray, TimestampMillisecondArray};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::path::Path;

/// Match rows, column by column.
pub(crate) struct Matches {
    pub(crate) ids: StringArray,
    pub(crate) partner_ids: StringArray,
    pub(crate) seen_at: TimestampMillisecondArray,
}

/// The column `id`.
pub(crate) fn ids(file: &Path) -> Result<StringArray, Failure> {
    text(&read(file)?, "id")
}

/// The rows of a match file.
pub(crate) fn matches(file: &Path) -> Result<Matches, Failure> {
    let rows = read(file)?;
    let seen_at = rows.column_by_name("seen_at");
    let seen_at = seen_at.and_then(|c| c.as_primitive_opt::<TimestampMillisecondType>());
    Ok(Matches {
        ids: text(&rows, "id")?,
        partner_ids: text(&rows, "partner_id")?,
        seen_at: seen_at.ok_or("there is no column seen_at in milliseconds")?.clone(),
    })
}

fn text(rows: &RecordBatch, name: &str) -> Result<StringArray, Failure> {
    let column = rows.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
    let column = column.ok_or_else(|| format!("there is no column {name} of text"))?;
    Ok(column.clone())
}

/// A file as one batch.
fn read(file: &Path) -> Result<RecordBatch, Failure> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?;
    let rows = usize::try_from(reader.metadata().file_metadata().num_rows())?;
    let mut batches = reader.with_batch_size(rows.max(1)).build()?;
    let batch = batches.next().ok_or_else(|| format!("{} is empty", file.display()))??;
    if batch.num_rows() != rows {
        return Err(format!("{}: {} of {rows} rows", file.display(), batch.num_rows()).into());
    }
    Ok(batch)
}
