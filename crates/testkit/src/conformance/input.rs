//! Arrow batches made of a case's rows.

use super::format::{ErasureRow, Item, ObservationRow};
use super::generate::expand;
use super::value::{DateValue, Given, Scope, Text, wrong};
use arrow_array::{
    ArrayRef, BinaryArray, FixedSizeBinaryArray, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use idmatch_store::{BatchSource, Error, ErrorKind, Result, SourceBatch};
use std::sync::Arc;

/// How rows are divided into batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batching {
    /// Rows of a batch; the last may have fewer.
    pub(super) batch_rows: usize,
    /// Whether a batch without rows comes last.
    pub(super) ends_empty: bool,
}

/// An identifier that may be missing or malformed.
type NullableId = Option<Given>;

/// The rows of a load or a population, batch by batch.
pub(super) struct Batches {
    rows: RecordBatch,
    batching: Batching,
    next_row: usize,
    is_done: bool,
}

impl Batches {
    /// The batches of a load.
    pub(super) fn of_load(
        rows: &[Item<ObservationRow>],
        is_reversed: bool,
        scope: Scope,
        batching: Batching,
    ) -> Result<Batches> {
        let mut rows = expand(rows, scope, |(id, partner_id, seen_at), scope| {
            let seen_at = seen_at.as_ref().map(|date| date.value(scope)).transpose()?;
            Ok((cell(id.as_ref(), scope)?, cell(partner_id.as_ref(), scope)?, seen_at))
        })?;
        if is_reversed {
            rows.reverse();
        }
        let ids = id_column(rows.iter().map(|(id, _, _)| id.as_ref()).collect())?;
        let partner_ids =
            id_column(rows.iter().map(|(_, partner_id, _)| partner_id.as_ref()).collect())?;
        let seen_at = date_column(rows.iter().map(|(_, _, seen_at)| seen_at.as_ref()).collect());
        Batches::new(vec![("id", ids), ("partner_id", partner_ids), ("seen_at", seen_at)], batching)
    }

    /// One row of an erasure.
    pub(super) fn of_erasure(row: &ErasureRow, scope: Scope) -> Result<(Batches, DateValue)> {
        let (id, partner_id, at) = row;
        let (id, partner_id) = (cell(id.as_ref(), scope)?, cell(partner_id.as_ref(), scope)?);
        let columns = vec![
            ("id", id_column(vec![id.as_ref()])?),
            ("partner_id", id_column(vec![partner_id.as_ref()])?),
        ];
        let batching = Batching { batch_rows: 1, ends_empty: false };
        Ok((Batches::new(columns, batching)?, at.value(scope)?))
    }

    /// The batches of a population, with its carried columns.
    pub(super) fn of_population(
        rows: &[Item<Option<Text>>],
        carried: Vec<(String, ArrayRef)>,
        scope: Scope,
        batching: Batching,
    ) -> Result<Batches> {
        let cells = expand(rows, scope, |row, scope| cell(row.as_ref(), scope))?;
        let population = id_column(cells.iter().map(Option::as_ref).collect())?;
        let carried = carried.iter().map(|(name, column)| (name.as_str(), Arc::clone(column)));
        Batches::new([("population", population)].into_iter().chain(carried).collect(), batching)
    }

    fn new(columns: Vec<(&str, ArrayRef)>, batching: Batching) -> Result<Batches> {
        let columns = columns.into_iter().map(|(name, array)| (name, array, true));
        let rows = RecordBatch::try_from_iter_with_nullable(columns)
            .map_err(|e| Error::with_source(ErrorKind::Source, "cannot build a batch", e))?;
        Ok(Batches { rows, batching, next_row: 0, is_done: false })
    }

    /// The rows of all batches.
    pub(super) fn rows(&self) -> usize {
        self.rows.num_rows()
    }
}

impl BatchSource for Batches {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let rows = self.batching.batch_rows.min(self.rows.num_rows() - self.next_row);
        if rows == 0 && (self.is_done || !self.batching.ends_empty) {
            return Ok(None);
        }
        self.is_done = rows == 0;
        let first_row = self.next_row as u64 + 1;
        let batch = self.rows.slice(self.next_row, rows);
        self.next_row += rows;
        Ok(Some(SourceBatch { source: "case".into(), first_row, batch }))
    }
}

fn cell(text: Option<&Text>, scope: Scope) -> Result<NullableId> {
    text.map(|text| text.given(scope)).transpose()
}

/// A text column, a binary one where something is no text, or one of fixed-size binary.
fn id_column(cells: Vec<Option<&Given>>) -> Result<ArrayRef> {
    let fixed = |cell: &Option<&Given>| matches!(cell, Some(Given::Fixed(_)));
    let is_fixed = cells.iter().any(fixed);
    if cells.iter().any(|cell| cell.is_some() && fixed(cell) != is_fixed) {
        return Err(wrong("a column has {fixed} in all rows or in none"));
    }
    let cells = cells
        .into_iter()
        .map(|cell| cell.map(|(Given::Bytes(bytes) | Given::Fixed(bytes))| bytes.as_slice()));
    if is_fixed {
        let width = cells.clone().flatten().next().map_or(0, <[u8]>::len) as i32;
        let column = FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, width)
            .map_err(|e| Error::with_source(ErrorKind::Source, "{fixed} has one length", e))?;
        return Ok(Arc::new(column));
    }
    let cells: Vec<Option<&[u8]>> = cells.collect();
    let texts: Option<Vec<Option<&str>>> =
        cells.iter().map(|cell| cell.map(std::str::from_utf8).transpose().ok()).collect();
    Ok(match texts {
        Some(texts) => Arc::new(StringArray::from(texts)),
        None => Arc::new(BinaryArray::from(cells)),
    })
}

/// A timestamp column, or a text one where something is no date.
fn date_column(values: Vec<Option<&DateValue>>) -> ArrayRef {
    let instants: Option<Vec<Option<i64>>> = values
        .iter()
        .map(|value| match value {
            None => Some(None),
            Some(DateValue::Instant(instant)) => Some(Some(instant.millis_i64())),
            Some(DateValue::Unreadable(_)) => None,
        })
        .collect();
    match instants {
        Some(instants) => Arc::new(TimestampMillisecondArray::from(instants).with_timezone("UTC")),
        None => Arc::new(StringArray::from_iter(values.iter().map(|value| {
            value.map(|value| match value {
                DateValue::Instant(instant) => instant.to_string(),
                DateValue::Unreadable(text) => text.clone(),
            })
        }))),
    }
}
