//! Judges the rows of a load or an upsert, and counts and reports the bad ones.

use super::observations::{ObservationColumns, Observations, numbers};
use super::rejects::{BadRows, Reject, RejectSink};
use super::source::SourceBatch;
use crate::locks::Mutex;
use crate::{Error, ErrorFields, ErrorKind, Result};
use idmatch_model::{DateRules, SeenAt};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Judges the rows of one load or upsert. Shared by the threads that do the work.
pub struct Ingest<'a> {
    strict: bool,
    now: SeenAt,
    dates: DateRules,
    sink: Mutex<&'a mut dyn RejectSink>,
    rows: AtomicU64,
    rejected: AtomicU64,
    /// The newest date in milliseconds since 1970, plus one; 0 where there is none.
    newest: AtomicU64,
}

impl<'a> Ingest<'a> {
    /// Rows are dated up to one day after `now`. With `strict`, the first bad row is an error.
    pub fn new(strict: bool, now: SeenAt, sink: &'a mut dyn RejectSink) -> Ingest<'a> {
        Ingest {
            strict,
            now,
            dates: DateRules::default(),
            sink: Mutex::new(sink),
            rows: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            newest: AtomicU64::new(0),
        }
    }

    /// The same judge, for a source that writes its dates by these rules.
    pub fn with_dates(self, dates: DateRules) -> Ingest<'a> {
        Ingest { dates, ..self }
    }

    /// Whether the first bad row is an error.
    pub(super) fn is_strict(&self) -> bool {
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

    /// The newest date of good rows so far.
    pub fn newest(&self) -> Option<SeenAt> {
        let millis = self.newest.load(Relaxed).checked_sub(1)?;
        SeenAt::from_millis(i64::try_from(millis).ok()?).ok()
    }

    /// The good rows of a batch with the columns `id`, `partner_id` and `seen_at`.
    ///
    /// # Errors
    /// `InvalidArgument` for a column that is missing or of a type that cannot be read;
    /// `BadInput` for the first bad row when strict; whatever the sink returns.
    pub fn observations(&self, source: &SourceBatch) -> Result<Observations> {
        let (columns, wrong) = ObservationColumns::read(source, (self.now, &self.dates))?;
        self.count(source.batch.num_rows());
        let rows = numbers(source, &wrong);
        let observations = if wrong.rows.is_empty() {
            columns.all(rows)
        } else {
            let good: Vec<bool> =
                (0..source.batch.num_rows()).map(|row| !wrong.rows.contains_key(&row)).collect();
            self.report(source, wrong)?;
            columns.only(good, rows)?
        };
        if let Some(newest) = observations.seen_at.iter().max() {
            self.newest.fetch_max(newest.millis() + 1, Relaxed);
        }
        Ok(observations)
    }

    /// Refuses a date that no observation could have: more than a day ahead.
    pub(super) fn check_date(&self, at: SeenAt) -> Result<()> {
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
            let Reject { source, row, column, reason } = first;
            let text = format!("{source}, row {row}: {column} {reason}");
            return Err(Error::new(ErrorKind::BadInput, text).with_fields(ErrorFields::BadInput {
                source: source.to_string(),
                row: *row,
                column: (*column).to_owned(),
                reason: reason.clone(),
            }));
        }
        self.rejected.fetch_add(rejects.len() as u64, Relaxed);
        self.sink.lock().reject(rejects)
    }
}
