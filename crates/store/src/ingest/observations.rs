//! Observations: the rows of a batch that obey the rules. Must not know who counts or reports the other rows.

use super::dates;
use super::ids::{self, IdColumn};
use super::rejects::BadRows;
use super::source::{SourceBatch, column};
use crate::{Error, ErrorKind, Result, RowNumbers};
use arrow_array::{BinaryViewArray, BooleanArray};
use idmatch_model::{DateRules, SeenAt};

/// Rows that obey the rules: three columns of equal length, and where the rows come from.
#[derive(Debug, Clone)]
pub struct Observations {
    /// The `id` column.
    pub ids: IdColumn,
    /// The `partner_id` column.
    pub partner_ids: IdColumn,
    /// The `seen_at` column.
    pub seen_at: Vec<SeenAt>,
    /// The number of each row in its source.
    pub rows: RowNumbers,
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

/// The rows of a batch that is stored already. The rules about the clock do not apply to them.
///
/// # Errors
/// `Corrupt` for the first row that breaks one of them.
pub(super) fn stored(source: &SourceBatch) -> Result<Observations> {
    let (columns, wrong) = ObservationColumns::read(source, (SeenAt::MAX, &DateRules::default()))?;
    let Some((row, (column, reason))) = wrong.rows.first_key_value() else {
        return Ok(columns.all(numbers(source, &wrong)));
    };
    let (name, row) = (&source.source, source.first_row + *row as u64);
    let text = format!("{name}, row {row}: {column} {reason}; verify the table, and repair it");
    Err(Error::new(ErrorKind::Corrupt, text))
}

/// The numbers of the rows of a batch without the bad ones.
pub(super) fn numbers(batch: &SourceBatch, wrong: &BadRows) -> RowNumbers {
    let number = |row: usize| batch.first_row + row as u64;
    let (mut numbers, mut next) = (RowNumbers::default(), 0);
    for bad in wrong.rows.keys() {
        numbers.push(&batch.source, number(next)..number(*bad));
        next = bad + 1;
    }
    numbers.push(&batch.source, number(next)..number(batch.batch.num_rows()));
    numbers
}

/// The columns of a batch, bad rows included.
pub(super) struct ObservationColumns {
    ids: BinaryViewArray,
    partner_ids: BinaryViewArray,
    seen_at: Vec<SeenAt>,
}

impl ObservationColumns {
    /// Reads a batch, and finds its bad rows.
    pub(super) fn read(
        source: &SourceBatch,
        dates: (SeenAt, &DateRules),
    ) -> Result<(ObservationColumns, BadRows)> {
        let mut wrong = BadRows::default();
        let ids = ids::bytes_of(column(source, "id")?, "id")?;
        let partner_ids = ids::bytes_of(column(source, "partner_id")?, "partner_id")?;
        ids::check(&ids, "id", &mut wrong);
        ids::check(&partner_ids, "partner_id", &mut wrong);
        let seen_at = dates::seen_at(column(source, "seen_at")?.1, dates, &mut wrong)?;
        Ok((ObservationColumns { ids, partner_ids, seen_at }, wrong))
    }

    /// All rows, where none is bad.
    pub(super) fn all(self, rows: RowNumbers) -> Observations {
        Observations {
            ids: IdColumn::trusted(self.ids),
            partner_ids: IdColumn::trusted(self.partner_ids),
            seen_at: self.seen_at,
            rows,
        }
    }

    /// The good rows.
    pub(super) fn only(self, good: Vec<bool>, rows: RowNumbers) -> Result<Observations> {
        let seen_at = self.seen_at.iter().zip(&good);
        let seen_at = seen_at.filter(|(_, good)| **good).map(|(t, _)| *t).collect();
        let good = BooleanArray::from(good);
        Ok(Observations {
            ids: IdColumn::filtered(&self.ids, &good)?,
            partner_ids: IdColumn::filtered(&self.partner_ids, &good)?,
            seen_at,
            rows,
        })
    }
}
