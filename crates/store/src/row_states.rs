//! The states of population rows in a positional match: two bits a row, so 250 kB for a million rows.
//!
//! The threads of a match share the states: the thread that finds a row marks it. Must not know how rows are
//! found.

use crate::Result;
use crate::matching::UnmatchedReason;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const ROWS_IN_WORD: usize = 32;

/// The two bits of a row. At first each row is not found.
const NOT_FOUND: u64 = 0;
const MATCHED: u64 = 1;
const NULL: u64 = 2;
const MALFORMED: u64 = 3;

/// The states of consecutive population rows of a positional match. Memory: two bits a row.
#[derive(Debug)]
pub struct RowStates {
    first_row: u32,
    rows: usize,
    words: Vec<AtomicU64>,
}

impl RowStates {
    /// Starts without rows; the first row gets this number.
    pub fn new(first_row: u32) -> RowStates {
        RowStates { first_row, rows: 0, words: Vec::new() }
    }

    /// Adds rows, which are not found yet.
    pub fn extend(&mut self, rows: usize) {
        self.rows += rows;
        self.words.resize_with(self.rows.div_ceil(ROWS_IN_WORD), AtomicU64::default);
    }

    /// Marks a row that has no match, for this reason. A row is marked once, or again with the same reason.
    pub fn set_unmatched(&self, row: u32, reason: UnmatchedReason) {
        self.set(
            row,
            match reason {
                UnmatchedReason::Null => NULL,
                UnmatchedReason::Malformed => MALFORMED,
                UnmatchedReason::NotFound => NOT_FOUND,
            },
        );
    }

    /// Marks a row that has a match.
    #[inline]
    pub fn set_matched(&self, row: u32) {
        self.set(row, MATCHED);
    }

    #[inline]
    fn set(&self, row: u32, state: u64) {
        let at = row.wrapping_sub(self.first_row) as usize;
        if let Some(word) = self.words.get(at / ROWS_IN_WORD) {
            word.fetch_or(state << (at % ROWS_IN_WORD * 2), Relaxed);
        }
    }

    /// Calls `take` with each row that has no match, ascending. All threads that mark must have ended.
    ///
    /// # Errors
    /// The errors of `take`.
    pub fn unmatched(
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

#[cfg(test)]
mod tests {
    use super::*;
    use UnmatchedReason::{Malformed, NotFound, Null};

    #[test]
    fn rows_keep_their_state_as_more_are_added() {
        let mut states = RowStates::new(1_000);
        states.extend(33);
        states.set_unmatched(1_000, Null);
        states.set_matched(1_031);
        states.set_unmatched(1_032, Malformed);
        states.extend(2);
        (1_001..1_030).for_each(|row| states.set_matched(row));
        states.set_matched(1_033);
        let mut unmatched = Vec::new();
        let mut take = |row, reason| {
            unmatched.push((row, reason));
            Ok(())
        };
        assert!(states.unmatched(&mut take).is_ok());
        assert_eq!(
            unmatched,
            [(1_000, Null), (1_030, NotFound), (1_032, Malformed), (1_034, NotFound)]
        );
    }
}
