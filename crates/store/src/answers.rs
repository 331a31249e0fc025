//! The answers of a lookup, by the position of the key.
//!
//! Must not know how they are found. Invariant: the answers of a key come newest first, ties by their bytes.

use crate::{Error, ErrorKind, Result};
use arrow_array::StringArray;
use arrow_array::builder::StringBuilder;
use idmatch_model::{SeenAt, Side, Window};
use std::ops::Range;

/// How keys are looked up.
#[derive(Debug, Clone, Copy)]
pub struct Lookup {
    /// Which side the keys are of.
    pub by: Side,
    /// Which dates count.
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

/// The bytes that the answers of one lookup may have: offsets of Arrow texts have 31 bits.
const MAX_BYTES: usize = i32::MAX as usize;
/// Initial capacities: most keys have no more answers.
const INITIAL_ROWS: usize = 4;
const INITIAL_BYTES: usize = 128;

/// The answers of several keys, all in memory.
#[derive(Debug, Clone)]
pub struct Answers {
    /// The answers of all keys, key by key.
    pub values: StringArray,
    /// Their dates, in milliseconds since 1970.
    pub seen_at: Vec<i64>,
    /// For each key where its answers end.
    ends: Vec<usize>,
}

impl Answers {
    /// The number of keys.
    pub fn keys(&self) -> usize {
        self.ends.len()
    }

    /// The rows of the answers of the key at this position, counted from 0.
    pub fn rows_of(&self, position: usize) -> Range<usize> {
        let end = |position: usize| self.ends.get(position).copied().unwrap_or_default();
        position.checked_sub(1).map_or(0, end)..end(position)
    }

    /// The answers of the key at this position, newest first.
    pub fn of(&self, position: usize) -> impl Iterator<Item = (&str, SeenAt)> {
        self.rows_of(position).filter_map(|row| {
            let seen_at = SeenAt::from_millis(*self.seen_at.get(row)?).ok()?;
            Some((self.values.value(row), seen_at))
        })
    }
}

/// Collects answers, key by key.
pub struct AnswersBuilder {
    values: StringBuilder,
    bytes: usize,
    seen_at: Vec<i64>,
    ends: Vec<usize>,
}

impl AnswersBuilder {
    /// No answers yet, for about this many keys.
    pub fn new(keys: usize) -> AnswersBuilder {
        AnswersBuilder {
            values: StringBuilder::with_capacity(INITIAL_ROWS, INITIAL_BYTES),
            bytes: 0,
            seen_at: Vec::with_capacity(INITIAL_ROWS),
            ends: Vec::with_capacity(keys),
        }
    }

    /// Adds the next answer of the present key.
    ///
    /// # Errors
    /// `InvalidArgument` if all answers have more than 2 GiB.
    pub fn push(&mut self, value: &str, seen_at: SeenAt) -> Result<()> {
        self.bytes += value.len();
        if self.bytes > MAX_BYTES {
            let what =
                "a lookup has more than 2 GiB of answers; give a limit, or look up fewer keys";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        self.values.append_value(value);
        self.seen_at.push(seen_at.millis_i64());
        Ok(())
    }

    /// Ends the present key.
    pub fn end_key(&mut self) {
        self.ends.push(self.seen_at.len());
    }

    /// All answers.
    pub fn finish(mut self) -> Answers {
        Answers { values: self.values.finish(), seen_at: self.seen_at, ends: self.ends }
    }
}
