//! The answers of a lookup, by the position of the key.
//!
//! Must not know how answers are found. Invariant: the answers of a key come newest first, ties by their
//! bytes.

use crate::{Error, ErrorKind, Result};
use arrow_array::StringArray;
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use idmatch_model::{SeenAt, Side, Window};
use std::ops::Range;

/// How keys are looked up.
#[derive(Debug, Clone, Copy)]
pub struct Lookup {
    /// The side of the keys.
    pub by: Side,
    /// Only observations in this window count.
    pub window: Window,
    /// At most this many answers of each key, the newest.
    pub limit: usize,
}

impl Lookup {
    /// All answers for keys of this side.
    pub fn by(by: Side) -> Lookup {
        Lookup { by, window: Window::ALL, limit: usize::MAX }
    }
}

/// Initial capacities: most keys have no more answers.
const INITIAL_ROWS: usize = 4;
const INITIAL_BYTES: usize = 64;

/// The answers of several keys, all in memory: added key by key.
#[derive(Debug, Clone)]
pub struct Answers {
    /// The answers of all keys, key by key.
    text: String,
    /// Where each answer begins in `text`, and where the last one ends.
    offsets: Vec<i32>,
    /// Their dates, in milliseconds since 1970.
    seen_at: Vec<i64>,
    /// For each key where its answers end.
    ends: Vec<usize>,
}

impl Answers {
    /// Starts without answers, with memory for about this many keys.
    pub fn new(keys: usize) -> Answers {
        let mut offsets = Vec::with_capacity(INITIAL_ROWS + 1);
        offsets.push(0);
        Answers {
            text: String::with_capacity(INITIAL_BYTES),
            offsets,
            seen_at: Vec::with_capacity(INITIAL_ROWS),
            ends: Vec::with_capacity(keys),
        }
    }

    /// Adds the next answer of the present key.
    ///
    /// # Errors
    /// `InvalidArgument` if all answers have more than 2 GiB.
    pub fn push(&mut self, value: &str, seen_at: SeenAt) -> Result<()> {
        let Ok(end) = i32::try_from(self.text.len() + value.len()) else {
            let what =
                "a lookup has more than 2 GiB of answers; give a limit, or look up fewer keys";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        };
        self.text.push_str(value);
        self.offsets.push(end);
        self.seen_at.push(seen_at.millis_i64());
        Ok(())
    }

    /// Ends the present key.
    pub fn end_key(&mut self) {
        self.ends.push(self.seen_at.len());
    }

    /// The number of keys.
    pub fn keys(&self) -> usize {
        self.ends.len()
    }

    /// The answers of the key at this position, newest first.
    pub fn of(&self, position: usize) -> impl Iterator<Item = (&str, SeenAt)> {
        self.rows_of(position).filter_map(|row| {
            let at = |row: usize| usize::try_from(*self.offsets.get(row)?).ok();
            let seen_at = SeenAt::from_millis(*self.seen_at.get(row)?).ok()?;
            Some((self.text.get(at(row)?..at(row + 1)?)?, seen_at))
        })
    }

    /// The answers of all keys, key by key, and their dates in milliseconds since 1970. Copies nothing.
    pub fn into_columns(self) -> (StringArray, Vec<i64>) {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        (StringArray::new(offsets, self.text.into_bytes().into(), None), self.seen_at)
    }

    fn rows_of(&self, position: usize) -> Range<usize> {
        let end = |position: usize| self.ends.get(position).copied().unwrap_or_default();
        position.checked_sub(1).map_or(0, end)..end(position)
    }
}
