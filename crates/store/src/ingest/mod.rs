//! From Arrow batches to observations: the one place where input is judged.
//!
//! A backend pulls [`SourceBatch`]es from a [`BatchSource`] and hands each, from any
//! thread, to [`Ingest::observations`]. Rows that break the rules of `idmatch-model` never
//! pass: they are counted and reported with source, row, column and reason, or, when the
//! caller is strict, the first one is the error. Text columns are taken as bytes, because
//! producers do not always keep their promise of UTF-8.

mod dates;
mod ids;
mod one;
mod targets;

pub use ids::{IdColumn, population_ids};
pub use one::OneObservation;

use crate::{Error, ErrorKind, Result};
use arrow_array::{BooleanArray, RecordBatch};
use idmatch_model::SeenAt;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of one source, in its order.
#[derive(Debug, Clone)]
pub struct SourceBatch {
    /// What the rows come from, as the user knows it: a file name.
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

/// A row that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    /// What the row came from.
    pub source: Arc<str>,
    /// Its number in there, counted from 1.
    pub row: u64,
    /// The first column that is wrong.
    pub column: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// Receives rejected rows.
pub trait RejectSink: Send {
    /// Takes some rejected rows of one batch, in order.
    fn reject(&mut self, rejects: Vec<Reject>) -> Result<()>;
}

/// Where there are no rejected rows: a strict ingest stops at the first one.
pub struct NoRejects;

impl RejectSink for NoRejects {
    fn reject(&mut self, _: Vec<Reject>) -> Result<()> {
        Ok(())
    }
}

/// Judges the rows of one load or upsert. Shared by the threads that do the work.
pub struct Ingest<'a> {
    strict: bool,
    now: SeenAt,
    sink: Mutex<&'a mut dyn RejectSink>,
    rows: AtomicU64,
    rejected: AtomicU64,
}

/// Rows that passed: three columns of equal length.
#[derive(Debug, Clone)]
pub struct Observations {
    /// The `id` column.
    pub ids: IdColumn,
    /// The `partner_id` column.
    pub partner_ids: IdColumn,
    /// The `seen_at` column.
    pub seen_at: Vec<SeenAt>,
}

impl<'a> Ingest<'a> {
    /// Rows are dated up to one day after `now`. With `strict`, the first bad row is an error.
    pub fn new(strict: bool, now: SeenAt, sink: &'a mut dyn RejectSink) -> Ingest<'a> {
        Ingest {
            strict,
            now,
            sink: Mutex::new(sink),
            rows: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
        }
    }

    /// Whether the first bad row is an error, with nothing published.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Rows read so far, bad ones included.
    pub fn rows(&self) -> u64 {
        self.rows.load(Relaxed)
    }

    /// Rows rejected so far.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Relaxed)
    }

    /// The good rows of a batch with the columns `id`, `partner_id` and `seen_at`.
    ///
    /// # Errors
    /// `InvalidArgument` for a column that is missing or of a type that cannot be read;
    /// `BadInput` for the first bad row when strict; whatever the sink returns.
    pub fn observations(&self, source: &SourceBatch) -> Result<Observations> {
        let batch = &source.batch;
        let mut wrong = Wrong::default();
        let ids = ids::bytes_of(column(source, "id")?, "id")?;
        let partner_ids = ids::bytes_of(column(source, "partner_id")?, "partner_id")?;
        ids::check(&ids, "id", &mut wrong);
        ids::check(&partner_ids, "partner_id", &mut wrong);
        let seen_at = dates::seen_at(column(source, "seen_at")?.1, self.now, &mut wrong)?;
        self.count(batch.num_rows());
        if wrong.rows.is_empty() {
            return Ok(Observations {
                ids: IdColumn::trusted(ids),
                partner_ids: IdColumn::trusted(partner_ids),
                seen_at,
            });
        }
        let good: Vec<bool> =
            (0..batch.num_rows()).map(|row| !wrong.rows.contains_key(&row)).collect();
        self.report(source, wrong)?;
        let seen_at =
            seen_at.iter().zip(&good).filter(|(_, good)| **good).map(|(t, _)| *t).collect();
        let good = BooleanArray::from(good);
        Ok(Observations {
            ids: IdColumn::filtered(&ids, &good)?,
            partner_ids: IdColumn::filtered(&partner_ids, &good)?,
            seen_at,
        })
    }

    /// Refuses a date that no observation could have: more than a day ahead.
    ///
    /// # Errors
    /// `InvalidArgument`, with the date.
    pub fn check_date(&self, at: SeenAt) -> Result<()> {
        let checked = at.check_observed(self.now).map(drop);
        checked.map_err(|e| Error::new(ErrorKind::InvalidArgument, format!("the date {at}: {e}")))
    }

    fn count(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Relaxed);
    }

    fn report(&self, source: &SourceBatch, wrong: Wrong) -> Result<()> {
        let rejects: Vec<Reject> = wrong
            .rows
            .into_iter()
            .map(|(row, (column, reason))| Reject {
                source: source.source.clone(),
                row: source.first_row + row as u64,
                column,
                reason,
            })
            .collect();
        if let (true, Some(first)) = (self.strict, rejects.first()) {
            return Err(Error::new(
                ErrorKind::BadInput,
                format!("{}, row {}: {} {}", first.source, first.row, first.column, first.reason),
            ));
        }
        self.rejected.fetch_add(rejects.len() as u64, Relaxed);
        self.sink.lock().unwrap_or_else(PoisonError::into_inner).reject(rejects)
    }
}

/// The bad rows of a batch, each with its first wrong column and the reason.
#[derive(Default)]
struct Wrong {
    rows: BTreeMap<usize, (&'static str, String)>,
}

impl Wrong {
    fn add(&mut self, row: usize, column: &'static str, reason: impl ToString) {
        self.rows.entry(row).or_insert_with(|| (column, reason.to_string()));
    }
}

type NamedColumn<'a> = (&'a arrow_schema::Field, &'a arrow_array::ArrayRef);

fn column<'a>(source: &'a SourceBatch, name: &str) -> Result<NamedColumn<'a>> {
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

impl Observations {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.seen_at.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.seen_at.is_empty()
    }
}
