//! What the reads of a match cost, as measured while they run.
//!
//! So many of them are under way at once that the time of one is its share of what servers and client can
//! do. What is compared is the time for a key of a list and for a row of a bucket. Reads that seem to be a
//! little worse are made now and then: what they cost may have changed.

use super::plan::Read;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Before anything was measured, a key of a list counts as so many rows of a bucket.
const ROWS_PER_KEY: f64 = 2.2;
/// With so many keys of a bucket, its rows are worth being counted.
const MANY_KEYS: usize = 80;
/// One of so many choices goes against what was measured, if the difference is less than that.
const TRY_ONE_OF: u64 = 256;
const TRY_WITHIN: f64 = 4.0;
/// Whatever the difference, one of so many.
const TRY_ANYWAY: u64 = 4_096;
/// A measurement counts as so many times the average at most.
const MOST_TIMES: f64 = 4.0;
/// How much a new measurement counts beside those before.
const WEIGHT: f64 = 1.0 / 32.0;
/// Lists of 1, 2-3, 4-7, ... keys cost differently for each.
const CLASSES: usize = 8;

/// The costs of one direction of a table. Kept from match to match.
#[derive(Debug, Default)]
pub(crate) struct Costs(Mutex<Measured>);

#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    /// Seconds for each key of a list, by the length of lists.
    key: [Average; CLASSES],
    /// Seconds for each row of a bucket that is read whole.
    row: Average,
    /// Rows of a bucket.
    rows: Average,
    choices: u64,
}

/// An average in which what is newer counts more; of nothing at first.
#[derive(Debug, Clone, Copy, Default)]
struct Average(Option<f64>);

impl Average {
    fn add(&mut self, value: f64) {
        // One read that hung says little about the others.
        let bounded = |before: f64| value.min(before * MOST_TIMES);
        self.0 = Some(self.0.map_or(value, |before| before + (bounded(before) - before) * WEIGHT));
    }
}

impl Costs {
    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How so many keys of one bucket are to be read: all rows, or lists of `list` keys.
    pub(super) fn choose(&self, keys: usize, list: usize) -> Read {
        let mut measured = self.lock();
        measured.choices += 1;
        let Some(rows) = measured.rows.0 else {
            return if keys >= MANY_KEYS { Read::Bucket } else { Read::Keys };
        };
        let lists = keys as f64 * measured.rows_per_key(list);
        let is_close = lists < rows * TRY_WITHIN && rows < lists * TRY_WITHIN;
        let tries = is_close && measured.choices.is_multiple_of(TRY_ONE_OF)
            || measured.choices.is_multiple_of(TRY_ANYWAY);
        if (lists < rows) != tries { Read::Keys } else { Read::Bucket }
    }

    /// Takes note of what a read took, which had so many keys and rows.
    pub(super) fn note(&self, read: Read, keys: usize, rows: u64, took: Duration) {
        let mut measured = self.lock();
        match read {
            Read::Key | Read::Keys => {
                if let Some(key) = measured.key.get_mut(class(keys)) {
                    key.add(took.as_secs_f64() / keys.max(1) as f64);
                }
            }
            Read::Bucket => {
                measured.row.add(took.as_secs_f64() / rows.max(1) as f64);
                measured.rows.add(rows as f64);
            }
            Read::Hot => {}
        }
    }

    /// What was found out, in words.
    pub(super) fn shown(&self, keys: f64) -> String {
        let measured = *self.lock();
        // Lossless enough: a number of keys.
        let per_key = measured.rows_per_key(keys.round() as usize);
        match measured.rows.0 {
            Some(rows) => format!(
                "a key of such a list takes as long as {per_key:.1} rows of a bucket; buckets have {rows:.0} rows"
            ),
            None => format!(
                "fewer than {MANY_KEYS} keys of a bucket: how many rows it has was not asked"
            ),
        }
    }
}

impl Measured {
    /// How many rows of a bucket take as long as one key of a list of this length.
    fn rows_per_key(&self, keys: usize) -> f64 {
        let key = self.key.get(class(keys)).and_then(|key| key.0);
        key.zip(self.row.0).map_or(ROWS_PER_KEY, |(key, row)| key / row)
    }
}

fn class(keys: usize) -> usize {
    (keys.max(1).ilog2() as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(costs: &Costs, keys: usize) -> usize {
        (0..2_560).filter(|_| costs.choose(keys, keys.min(100)) == Read::Bucket).count()
    }

    #[test]
    fn the_cheaper_read_is_chosen_and_the_other_is_tried_sometimes() {
        let costs = Costs::default();
        assert_eq!(
            [2, 79, 80].map(|keys| costs.choose(keys, keys)),
            [Read::Keys, Read::Keys, Read::Bucket]
        );
        let millis = Duration::from_millis;
        // A bucket of 1,000 rows takes 10 ms, a list of 50 keys takes 1 ms: twice a row for each.
        costs.note(Read::Bucket, 50, 1_000, millis(10));
        costs.note(Read::Keys, 50, 50, millis(1));
        assert_eq!(choices(&costs, 50), 0);
        // The one that is tried whatever the difference.
        assert_eq!(choices(&costs, 63), 1);
        costs.note(Read::Keys, 100, 100, millis(2));
        assert_eq!(choices(&costs, 300), 10);
        assert_eq!(choices(&costs, 700), 2_550);
        assert_eq!(choices(&costs, 5_000), 2_559);
        // Lists become slow.
        (0..500).for_each(|_| costs.note(Read::Keys, 100, 100, millis(8)));
        assert_eq!(choices(&costs, 300), 2_550);
    }
}
