//! Judges the rows of a load or an upsert, and counts and reports the bad ones.

use super::dates;
use super::ids::{self, IdColumn};
use super::rejects::{BadRows, Reject, RejectSink};
use super::source::{SourceBatch, column};
use crate::{Error, ErrorKind, Result};
use arrow_array::BooleanArray;
use idmatch_model::SeenAt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

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
        let mut wrong = BadRows::default();
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

    pub(super) fn count(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Relaxed);
    }

    pub(super) fn report(&self, source: &SourceBatch, wrong: BadRows) -> Result<()> {
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
