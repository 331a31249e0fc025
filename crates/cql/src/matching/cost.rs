//! What the reads of a match cost, as measured while they run.
//!
//! So many reads are under way at once that the time of one is mostly its wait for those before it: its
//! share of that time is what it costs, but only where those are of its own kind. A list among whole
//! buckets takes as long as they do, and says nothing of lists. So each way is tried for many buckets one
//! after the other, and the reads that meet others of the other kind are not counted. What is compared is
//! the time for a key of a list and for a row of a bucket. Both may change: they are tried again, at first
//! soon, because a server that paused may have spoilt the first trial, and then ever less often.
//!
//! Must not know how reads are sent.

use super::plan::Read;
use crate::bucket;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Before anything was measured, a key of a list counts as so many rows of a bucket.
const ROWS_PER_KEY: f64 = 2.2;
/// With so many keys of a bucket, its rows are worth being counted.
const MANY_KEYS: usize = bucket::ROWS / 50;
/// Both ways are tried, one after the other, until so many reads of each counted.
const ENOUGH: u32 = 16;
/// The second trial begins so many choices after the first; then each time after twice as many, up to the
/// second number.
const NEXT_TRIAL: u64 = 1_024;
const RAREST_TRIAL: u64 = 16_384;
/// From the third on, a trial is left out where one way costs so many times the other; but one of so many is
/// made all the same.
const CLEAR: f64 = 2.0;
const CLEAR_TRIALS: u64 = 8;
/// Where it costs so many times the other, a trial waits for another population.
const HOPELESS: f64 = 16.0;
/// A read counts where those of the other kind under way are at most this part of its own.
const OTHERS: f64 = 0.125;
/// A measurement counts as so many times the average at most.
const MOST_TIMES: f64 = 4.0;
/// How much a new measurement counts beside many before.
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
    /// Reads under way: of keys, and of whole buckets.
    keys_now: u32,
    buckets_now: u32,
    trials: Trials,
}

/// When both ways are tried.
#[derive(Debug, Clone, Copy)]
struct Trials {
    /// What is being tried, and how many reads of that counted.
    phase: Option<Read>,
    counted: u32,
    /// Choices since the latest trial, and with how many the next begins.
    choices: u64,
    next: u64,
    /// Which trial the latest is, those counted that were left out.
    number: u64,
}

/// An average in which what is newer counts more; of nothing at first.
#[derive(Debug, Clone, Copy, Default)]
struct Average {
    value: Option<f64>,
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

impl Default for Trials {
    fn default() -> Trials {
        Trials { phase: Some(Read::Keys), counted: 0, choices: 0, next: NEXT_TRIAL, number: 1 }
    }
}

impl Trials {
    /// Which way the next choice tries, if it does, where one costs so many times the other.
    fn next(&mut self, times: f64) -> Option<Read> {
        if let Some(read) = self.phase.filter(|_| self.counted >= ENOUGH) {
            self.counted = 0;
            self.phase = (read == Read::Keys).then_some(Read::Bucket);
        }
        if self.phase.is_none() {
            self.choices += 1;
            if self.choices >= self.next {
                (self.number, self.choices, self.counted) = (self.number + 1, 0, 0);
                self.next = (self.next * 2).min(RAREST_TRIAL);
                let is_made =
                    times < CLEAR || self.number == 2 || self.number.is_multiple_of(CLEAR_TRIALS);
                self.phase = is_made.then_some(Read::Keys);
            }
        }
        self.phase.filter(|_| times < HOPELESS)
    }

    /// Takes note of a read that counted.
    fn count(&mut self, read: Read) {
        let is_bucket = read == Read::Bucket;
        self.counted += u32::from(self.phase.is_some_and(|now| (now == Read::Bucket) == is_bucket));
    }
}

impl Average {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let weight = WEIGHT.max(1.0 / self.count);
        // One read that hung says little about the others.
        let bounded = |before: f64| value.min(before * MOST_TIMES);
        let next = |before: f64| before + (bounded(before) - before) * weight;
        self.value = Some(self.value.map_or(value, next));
    }
}

impl Costs {
    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How so many keys of one bucket are to be read: all rows, or lists of `list` keys.
    pub(super) fn choose(&self, keys: usize, list: usize) -> Read {
        let mut measured = self.lock();
        let rows = measured.rows.value;
        if rows.is_none() && keys < MANY_KEYS {
            return Read::Keys;
        }
        let lists = keys as f64 * measured.rows_per_key(list);
        let times = rows.map_or(1.0, |rows| (lists / rows).max(rows / lists));
        let by_cost = if rows.is_none_or(|rows| lists < rows) { Read::Keys } else { Read::Bucket };
        measured.trials.next(times).unwrap_or(by_cost)
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

    /// What was found out, in words.
    pub(super) fn shown(&self, keys: f64) -> String {
        let measured = *self.lock();
        // Lossless enough: a number of keys.
        let per_key = measured.rows_per_key(keys.round() as usize);
        match measured.rows.value {
            Some(rows) => format!(
                "a key of such a list takes as long as {per_key:.1} rows of a bucket; buckets have {rows:.0} rows"
            ),
            None => format!(
                "fewer than {MANY_KEYS} keys of a bucket: how many rows it has was not asked"
            ),
        }
    }
}

impl Started<'_> {
    /// Takes note that it was answered, for so many keys and with so many rows.
    pub(super) fn answered(self, keys: usize, rows: u64) {
        self.took(self.at.elapsed(), keys, rows);
    }

    fn took(&self, took: Duration, keys: usize, rows: u64) {
        let Some(own) = self.own else { return };
        let mut measured = self.costs.lock();
        measured.trials.count(self.read);
        let share = took.as_secs_f64() / f64::from(own.max(1));
        match self.read {
            Read::Key | Read::Keys => {
                if let Some(key) = measured.key.get_mut(class(keys)) {
                    key.add(share / keys.max(1) as f64);
                }
            }
            Read::Bucket => {
                measured.row.add(share / rows.max(1) as f64);
                measured.rows.add(rows as f64);
            }
            Read::Hot => {}
        }
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

    /// How many rows of a bucket take as long as one key of a list of this length.
    fn rows_per_key(&self, keys: usize) -> f64 {
        let key = self.key.get(class(keys)).and_then(|key| key.value);
        key.zip(self.row.value).map_or(ROWS_PER_KEY, |(key, row)| key / row)
    }
}

fn class(keys: usize) -> usize {
    (keys.max(1).ilog2() as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Reads that are under way at once, as in a match.
    const AT_ONCE: usize = 64;
    const LIST: usize = 100;
    const ROWS: usize = 4_000;

    /// A server that answers one read after the other.
    struct Server {
        costs: Costs,
        /// What it has done, in microseconds.
        now: u64,
        /// What a row of a bucket and a key of a list take.
        row: u64,
        key: u64,
    }

    impl Server {
        fn new(row: u64, key: u64) -> Server {
            Server { costs: Costs::default(), now: 0, row, key }
        }

        /// Matches so many keys of each of some buckets; gives how many buckets were read whole. It pauses
        /// after so many reads.
        fn matches(&mut self, keys: usize, buckets: usize, pause_after: Option<usize>) -> usize {
            let costs = &self.costs;
            let mut left = buckets;
            let mut chosen = Vec::new();
            // How a bucket is read, and in how many reads; after that another one.
            let mut next = |lists: usize| match lists {
                0 if left == 0 => None,
                0 => {
                    left -= 1;
                    let read = costs.choose(keys, LIST);
                    chosen.push(read);
                    Some((read, if read == Read::Keys { keys / LIST - 1 } else { 0 }))
                }
                more => Some((Read::Keys, more - 1)),
            };
            let mut waiting = VecDeque::new();
            for _ in 0..AT_ONCE {
                let Some((read, lists)) = next(0) else { break };
                waiting.push_back((costs.begin(read), self.now, lists));
            }
            let mut done = 0;
            while let Some((started, since, lists)) = waiting.pop_front() {
                let is_list = started.read == Read::Keys;
                let work = if is_list { self.key * LIST as u64 } else { self.row * ROWS as u64 };
                self.now += work + if pause_after == Some(done) { 500_000 } else { 0 };
                done += 1;
                let (keys, rows) = if is_list { (LIST, LIST) } else { (keys, ROWS) };
                started.took(Duration::from_micros(self.now - since), keys, rows as u64);
                drop(started);
                if let Some((read, lists)) = next(lists) {
                    waiting.push_back((costs.begin(read), self.now, lists));
                }
            }
            chosen.iter().filter(|read| **read == Read::Bucket).count()
        }
    }

    #[test]
    fn few_keys_of_a_bucket_are_never_worth_all_its_rows() {
        let costs = Costs::default();
        assert!((0..1_000).all(|_| costs.choose(MANY_KEYS - 1, 79) == Read::Keys));
        assert!(costs.shown(79.0).contains("was not asked"));
    }

    #[test]
    fn the_cheaper_read_is_chosen_after_trials() {
        const BUCKETS: usize = 1_250;
        for (row, key) in [(1, 2), (1, 4), (2, 3)] {
            // A tenth of the keys, and most of them.
            for keys in [400, 3_200] {
                let mut server = Server::new(row, key);
                let lists_are_better = keys as u64 * key < ROWS as u64 * row;
                for matched in 0..20 {
                    let whole = server.matches(keys, BUCKETS, None);
                    let wrong = if lists_are_better { whole } else { BUCKETS - whole };
                    assert!(wrong < 300, "{wrong} in match {matched} of {keys} keys");
                }
                let per_key = server.costs.lock().rows_per_key(LIST);
                let expected = key as f64 / row as f64;
                assert!((per_key / expected - 1.0).abs() < 0.5, "{per_key}, not {expected}");
            }
        }
    }

    #[test]
    fn a_server_that_pauses_spoils_the_choice_for_a_short_time_only() {
        // In the trial of lists, in that of buckets, and between.
        for pause in [10, 100, 150, 200, 250] {
            for keys in [400, 3_200] {
                let mut server = Server::new(1, 2);
                server.matches(keys, 1_250, Some(pause));
                let whole = server.matches(keys, 1_250, None);
                let wrong = if keys == 400 { whole } else { 1_250 - whole };
                assert!(wrong <= 500, "{wrong} of {keys} keys, paused after {pause}");
            }
        }
    }

    #[test]
    fn servers_that_change_are_noticed() {
        // Soon where the ways are close, later where they are not.
        for (keys, until) in [(1_200, 20_000), (400, 150_000)] {
            let mut server = Server::new(1, 2);
            server.matches(keys, 100_000, None);
            assert!(server.matches(keys, 20_000, None) <= 1_000);
            // Lists become slow.
            server.key = 20;
            server.matches(keys, until, None);
            assert!(server.matches(keys, 20_000, None) >= 19_000, "{keys}");
        }
    }

    #[test]
    fn a_read_among_others_does_not_count() {
        let costs = Costs::default();
        let buckets: Vec<_> = (0..8).map(|_| costs.begin(Read::Bucket)).collect();
        costs.begin(Read::Keys).took(Duration::from_secs(9), 10, 10);
        assert_eq!(costs.lock().rows_per_key(10), ROWS_PER_KEY);
        let last = costs.begin(Read::Bucket);
        last.took(Duration::from_secs(9), 10, 1_000);
        assert_eq!(costs.lock().row.value, Some(0.001));
        drop((last, buckets));
        costs.begin(Read::Keys).took(Duration::from_secs(1), 10, 10);
        assert_eq!(costs.lock().rows_per_key(10), 100.0);
    }
}
