//! What became of the rows of a population batch, for a positional match.
//!
//! Two bits a row, so 250 kB for a million rows. The threads that probe share them: a row is marked by
//! whoever finds it, and nothing is read before all have ended.

use crate::sync::{AtomicU64, Ordering::Relaxed};
use idmatch_store::{Result, UnmatchedReason};

const ROWS_IN_WORD: usize = 32;

/// The two bits of a row. All rows are unmatched at first.
const NOT_FOUND: u64 = 0;
const MATCHED: u64 = 1;
const NULL: u64 = 2;
const MALFORMED: u64 = 3;

/// The states of consecutive rows.
pub(super) struct RowStates {
    first_row: u32,
    rows: usize,
    words: Vec<AtomicU64>,
}

impl RowStates {
    /// The states of `rows` rows, of which the `rejected` ones hold no identifier.
    pub(super) fn new(
        first_row: u32,
        rows: usize,
        rejected: impl Iterator<Item = (u32, UnmatchedReason)>,
    ) -> RowStates {
        let words = (0..rows.div_ceil(ROWS_IN_WORD)).map(|_| AtomicU64::new(0)).collect();
        let states = RowStates { first_row, rows, words };
        for (row, reason) in rejected {
            states.set(
                row,
                match reason {
                    UnmatchedReason::Null => NULL,
                    UnmatchedReason::Malformed => MALFORMED,
                    UnmatchedReason::NotFound => NOT_FOUND,
                },
            );
        }
        states
    }

    /// Notes that a row has a match.
    #[inline]
    pub(super) fn set_matched(&self, row: u32) {
        self.set(row, MATCHED);
    }

    #[inline]
    fn set(&self, row: u32, state: u64) {
        let at = row.wrapping_sub(self.first_row) as usize;
        if let Some(word) = self.words.get(at / ROWS_IN_WORD) {
            word.fetch_or(state << (at % ROWS_IN_WORD * 2), Relaxed);
        }
    }

    /// Calls `take` with each row that has no match, ascending.
    pub(super) fn unmatched(
        &self,
        take: &mut dyn FnMut(u32, UnmatchedReason) -> Result<()>,
    ) -> Result<()> {
        let states = self.words.iter().flat_map(|word| {
            let word = word.load(Relaxed);
            (0..ROWS_IN_WORD).map(move |at| word >> (at * 2) & 3)
        });
        for (state, row) in states.take(self.rows).zip(self.first_row..) {
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
