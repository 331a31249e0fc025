//! What became of the rows of a tranche, for a positional match: two bits a row.
//!
//! The tasks of a match share them. Rows are not found at first; the task that finds one marks it.

use idmatch_store::{Result, UnmatchedReason};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const ROWS_OF_WORD: usize = 32;

/// The two bits of a row.
const MATCHED: u64 = 1;
const NULL: u64 = 2;
const MALFORMED: u64 = 3;

/// The states of consecutive rows.
#[derive(Debug)]
pub(super) struct RowStates {
    first_row: u64,
    rows: usize,
    words: Vec<AtomicU64>,
}

impl RowStates {
    /// No rows yet; the first has this number.
    pub(super) fn new(first_row: u64) -> RowStates {
        RowStates { first_row, rows: 0, words: Vec::new() }
    }

    /// Adds rows.
    pub(super) fn extend(&mut self, rows: usize) {
        self.rows += rows;
        self.words.resize_with(self.rows.div_ceil(ROWS_OF_WORD), AtomicU64::default);
    }

    /// Marks a row that holds no identifier: null or malformed.
    pub(super) fn reject(&self, row: u32, is_null: bool) {
        self.set(row, if is_null { NULL } else { MALFORMED });
    }

    /// Marks a row that has a match.
    pub(super) fn set_matched(&self, row: u32) {
        self.set(row, MATCHED);
    }

    /// A row is marked once, or twice alike.
    fn set(&self, row: u32, state: u64) {
        let at = u64::from(row).wrapping_sub(self.first_row) as usize;
        if let Some(word) = self.words.get(at / ROWS_OF_WORD) {
            word.fetch_or(state << (at % ROWS_OF_WORD * 2), Relaxed);
        }
    }

    /// Calls `take` with each row that has no match, ascending.
    pub(super) fn unmatched(
        &self,
        take: &mut dyn FnMut(u32, UnmatchedReason) -> Result<()>,
    ) -> Result<()> {
        let states = self.words.iter().flat_map(|word| {
            let word = word.load(Relaxed);
            (0..ROWS_OF_WORD).map(move |at| word >> (at * 2) & 3)
        });
        // Lossless: a positional match has fewer rows.
        for (state, row) in states.take(self.rows).zip(self.first_row as u32..) {
            match state {
                MATCHED => {}
                NULL => take(row, UnmatchedReason::Null)?,
                MALFORMED => take(row, UnmatchedReason::Malformed)?,
                _ => take(row, UnmatchedReason::NotFound)?,
            }
        }
        Ok(())
    }
}
