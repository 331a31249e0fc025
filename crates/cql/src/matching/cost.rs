//! What the reads of a match cost, and which of two ways costs less for the keys of a bucket.
//!
//! So many reads are under way at once that the time of one is mostly its wait for those before it: its
//! share of that time is what it costs, but only where those are of its own kind. A list among whole
//! buckets takes as long as they do, and says nothing of lists. So each way is tried for many buckets one
//! after the other ([`super::trials`]), and the reads that meet others of the other kind are not counted. What
//! is compared is the time for a key of a list and for a row of a bucket, in the same trial; of the latest
//! trials, the median counts. What reads take between trials changes nothing: it is of one way only, and while
//! servers warm up or a node hangs, either way is slower than it was.
//!
//! Must not know how reads are sent.

use super::plan::Read;
use super::trials::Trials;
use crate::bucket;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One of so many buckets, where that many keys are asked for, is read whole to see how many rows it has.
const LOOK: u64 = 1_024;
const MANY_KEYS: usize = bucket::ROWS / 50;
/// A read counts where those of the other kind under way are at most this part of its own.
const OTHERS: f64 = 0.125;
/// How much the rows of a bucket count beside those of many before.
const WEIGHT: f64 = 1.0 / 8.0;

/// The costs of one direction of a table. Kept from match to match.
#[derive(Debug, Default)]
pub(crate) struct Costs(Mutex<Measured>);

#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    trials: Trials,
    /// Rows of a bucket.
    rows: Average,
    /// Choices for many keys.
    looks: u64,
    /// Reads under way: of keys, and of whole buckets.
    keys_now: u32,
    buckets_now: u32,
}

/// An average in which what is newer counts more.
#[derive(Debug, Clone, Copy)]
struct Average {
    value: f64,
    count: f64,
}

/// A read that has begun.
#[derive(Debug)]
#[must_use = "it is under way until it ends"]
pub(super) struct Started<'c> {
    costs: &'c Costs,
    read: Read,
    at: Instant,
    /// Those under way of its own kind, with itself; `None` where it does not count.
    own: Option<u32>,
}

impl Default for Average {
    /// As buckets are meant to be, until the first is counted.
    fn default() -> Average {
        Average { value: bucket::ROWS as f64, count: 0.0 }
    }
}

impl Average {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let weight = WEIGHT.max(1.0 / self.count);
        self.value += (value - self.value) * weight;
    }
}

impl Costs {
    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How so many keys of one bucket are to be read: all rows, or lists of `list` keys.
    pub(super) fn choose(&self, keys: usize, list: usize) -> Read {
        let mut measured = self.lock();
        if keys >= MANY_KEYS {
            measured.looks += 1;
            if measured.looks % LOOK == 1 {
                return Read::Bucket;
            }
        }
        let keys_per_row = keys as f64 / measured.rows.value.max(1.0);
        let times = measured.trials.found(list).times(keys_per_row);
        let tried = measured.trials.next(times);
        let lists = measured.trials.found(list).median() * keys_per_row;
        tried.unwrap_or(if lists < 1.0 { Read::Keys } else { Read::Bucket })
    }

    /// Takes note that a read begins.
    pub(super) fn begin(&self, read: Read) -> Started<'_> {
        let mut measured = self.lock();
        let own = measured.under_way(read).map(|now| {
            *now += 1;
            *now
        });
        let others = measured.others(read);
        let own = own.filter(|own| f64::from(others) <= f64::from(*own) * OTHERS);
        Started { costs: self, read, at: Instant::now(), own }
    }

    /// What is known of lists of so many keys and of buckets, in words.
    pub(super) fn shown(&self, list: usize) -> String {
        let measured = *self.lock();
        let per_key = measured.trials.found(list).median();
        let (rows, known) = (measured.rows.value, measured.rows.count > 0.0);
        let are_said = if known { "have" } else { "are taken to have" };
        format!(
            "a key of a list takes as long as {per_key:.1} rows of a bucket, and buckets {are_said} {rows:.0}"
        )
    }
}

impl Started<'_> {
    /// Takes note that it was answered, for so many keys and with so many rows.
    pub(super) fn answered(self, keys: usize, rows: u64) {
        self.took(self.at.elapsed(), keys, rows);
    }

    fn took(&self, took: Duration, keys: usize, rows: u64) {
        let mut measured = self.costs.lock();
        let units = match self.read {
            Read::Key | Read::Keys => keys,
            Read::Bucket => {
                measured.rows.add(rows as f64);
                usize::try_from(rows).unwrap_or(usize::MAX)
            }
            Read::Hot => return,
        };
        let now = measured.under_way(self.read).map_or(0, |now| *now);
        // It had far more beside it than it knows: a match has just begun.
        if self.own.is_some_and(|own| now > 2 * own) {
            return;
        }
        let share = self.own.map(|own| took.as_secs_f64() / f64::from(own.max(1)));
        measured.trials.count(self.read, share.map(|share| (share, units)));
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        if let Some(now) = self.costs.lock().under_way(self.read) {
            *now = now.saturating_sub(1);
        }
    }
}

impl Measured {
    fn under_way(&mut self, read: Read) -> Option<&mut u32> {
        match read {
            Read::Key | Read::Keys => Some(&mut self.keys_now),
            Read::Bucket => Some(&mut self.buckets_now),
            Read::Hot => None,
        }
    }

    fn others(&self, read: Read) -> u32 {
        if read == Read::Bucket { self.keys_now } else { self.buckets_now }
    }
}

#[cfg(test)]
mod simulated;

#[cfg(test)]
mod tests {
    use super::super::trials::ROWS_PER_KEY;
    use super::*;

    const LIST: usize = 100;

    #[test]
    fn a_small_match_is_read_by_what_is_known_of_servers() {
        for (keys, better) in [(60, Read::Keys), (400, Read::Keys), (3_200, Read::Bucket)] {
            let costs = Costs::default();
            // The first is a look at how many rows there are, where there are enough keys for that.
            assert_eq!(costs.choose(keys, LIST) == Read::Bucket, keys > 60);
            assert!((0..1_000).all(|_| costs.choose(keys, LIST) == better), "{keys}");
            let shown = costs.shown(LIST);
            assert!(shown.ends_with("2.2 rows of a bucket, and buckets are taken to have 4000"));
        }
    }

    #[test]
    fn buckets_that_are_far_larger_or_smaller_than_meant_are_noticed() {
        for (rows, keys, better) in [(40_000, 3_200, Read::Keys), (40, 100, Read::Bucket)] {
            let costs = Costs::default();
            assert_eq!(costs.choose(keys, LIST), Read::Bucket);
            costs.begin(Read::Bucket).took(Duration::from_millis(9), keys, rows);
            assert!((0..1_000).all(|_| costs.choose(keys, LIST) == better), "{rows}");
            assert!(costs.shown(LIST).ends_with(&format!("buckets have {rows}")));
        }
    }

    #[test]
    fn a_read_among_others_does_not_count() {
        let costs = Costs::default();
        let alone: Vec<_> = (0..16).map(|_| costs.begin(Read::Bucket)).collect();
        let among: Vec<_> = (0..16).map(|_| costs.begin(Read::Keys)).collect();
        let late: Vec<_> = (0..16).map(|_| costs.begin(Read::Bucket)).collect();
        let counts = |all: &[Started<'_>]| all.iter().filter(|one| one.own.is_some()).count();
        assert_eq!((counts(&alone), counts(&among), counts(&late)), (16, 0, 0));
        drop((alone, among, late));
        assert!(costs.begin(Read::Keys).own.is_some());
    }

    #[test]
    fn the_first_reads_of_a_match_do_not_count_as_if_they_had_been_alone() {
        let costs = Costs::default();
        while costs.lock().trials.tried().is_none() {
            let _ = costs.choose(400, LIST);
        }
        // Servers that share their time evenly: all are answered at the same time, each with a millisecond.
        let all: Vec<_> = (0..40).map(|_| costs.begin(Read::Keys)).collect();
        for started in all {
            started.took(Duration::from_millis(40), LIST, LIST as u64);
        }
        let _ = costs.choose(400, LIST);
        assert_eq!(costs.lock().trials.tried(), Some(Read::Keys), "40 ms are not enough");
    }

    #[test]
    fn a_trial_that_others_disturb_is_given_up() {
        let costs = Costs::default();
        // Matches of few ids.
        let others: Vec<_> = (0..64).map(|_| costs.begin(Read::Keys)).collect();
        let mut whole = 0;
        for _ in 0..20_000 {
            let read = costs.choose(400, LIST);
            whole += usize::from(read == Read::Bucket);
            let (keys, rows) = if read == Read::Bucket { (400, 4_000) } else { (LIST, LIST) };
            costs.begin(read).took(Duration::from_millis(9), keys, rows as u64);
        }
        // Those of two trials, and looks.
        assert!((400..600).contains(&whole), "{whole}");
        drop(others);
        assert_eq!(costs.lock().trials.found(LIST).median(), ROWS_PER_KEY);
    }
}
