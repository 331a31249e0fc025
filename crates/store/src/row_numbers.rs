//! The numbers of rows in their sources. Must not know what the rows hold.
//!
//! Invariant: no run is empty, and two runs of a source that follow each other have a gap between them.

use std::ops::Range;
use std::sync::Arc;

/// The sources and numbers of rows, in the order of the rows: a batch without rejected rows is one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowNumbers {
    runs: Vec<RowRun>,
}

/// Consecutive rows of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowRun {
    /// The source of the rows.
    pub source: Arc<str>,
    /// Their numbers in the source, counted from 1.
    pub rows: Range<u64>,
}

impl RowNumbers {
    /// The runs, in order.
    pub fn runs(&self) -> &[RowRun] {
        &self.runs
    }

    /// Rows of one source.
    pub fn of(source: &str, rows: Range<u64>) -> RowNumbers {
        let mut numbers = RowNumbers::default();
        numbers.push(&source.into(), rows);
        numbers
    }

    /// The number of rows. Cost: linear in the runs.
    pub fn len(&self) -> usize {
        self.runs.iter().map(RowRun::len).sum()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The numbers of some of these rows: `0..n` are the first n. Rows that are not there are left out.
    /// Cost: linear in the runs.
    #[must_use]
    pub fn slice(&self, rows: Range<usize>) -> RowNumbers {
        let (mut sliced, mut start) = (RowNumbers::default(), 0);
        for run in &self.runs {
            let within = |row: usize| row.clamp(start, start + run.len()) - start;
            let number = |row: usize| run.rows.start + within(row) as u64;
            sliced.push(&run.source, number(rows.start)..number(rows.end));
            start += run.len();
        }
        sliced
    }

    /// Adds the numbers of the rows that come next.
    pub fn extend(&mut self, next: &RowNumbers) {
        next.runs.iter().for_each(|run| self.push(&run.source, run.rows.clone()));
    }

    /// Adds the rows that come next, of one source.
    pub(crate) fn push(&mut self, source: &Arc<str>, rows: Range<u64>) {
        if rows.is_empty() {
            return;
        }
        match self.runs.last_mut() {
            Some(last) if last.rows.end == rows.start && last.source == *source => {
                last.rows.end = rows.end;
            }
            _ => self.runs.push(RowRun { source: Arc::clone(source), rows }),
        }
    }
}

impl RowRun {
    fn len(&self) -> usize {
        (self.rows.end - self.rows.start) as usize
    }
}
