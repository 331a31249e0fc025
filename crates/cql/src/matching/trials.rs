//! When both ways to read the keys of a bucket are tried, and what that found.
//!
//! A trial is lists for a while, then whole buckets for a while, each until it had enough of the servers'
//! time: few reads could all meet a pause. So the dearer way is read for up to some three hundred buckets,
//! those included that do not count because reads of the other kind are still under way, and trials are rare.
//!
//! Must not know how reads are sent, and which way is chosen between trials.

use super::plan::Read;
use std::time::{Duration, Instant};

/// So many rows of a bucket take as long as a key of a list, where nothing was measured.
pub(super) const ROWS_PER_KEY: f64 = 2.2;
/// Trials that count. As long as there were fewer, the number above counts for each one that is missing.
const LATEST: usize = 5;
/// Each way is tried until so many seconds of the servers' time and so many reads of it counted.
const ENOUGH_TIME: f64 = 0.1;
const ENOUGH_READS: u32 = 16;
/// A trial is given up when so many lists or whole buckets did not count, as there are others all the time; and
/// when it is so old that the servers may have become others.
const LISTS_IN_VAIN: u32 = 1_024;
const BUCKETS_IN_VAIN: u32 = 256;
const OLDEST: Duration = Duration::from_secs(600);
/// The first trial begins after so many choices, so that a small match pays for none; then each time after
/// twice as many, up to the second number.
const FIRST_TRIAL: u64 = 4_096;
const RAREST_TRIAL: u64 = 16_384;
/// From the third on, a trial is left out where one way costs so many times the other; but one of so many is
/// made all the same.
const CLEAR: f64 = 2.0;
const CLEAR_TRIALS: u64 = 8;
/// Where it costs so many times the other, no trial begins; where twice as many, it takes no part in one.
const HOPELESS: f64 = 16.0;
/// A trial that says so many times more or less than the ones before is followed by another so soon.
const SURPRISE: f64 = 2.0;
const SOON: u64 = 1_024;
/// Lists of 1, 2-3, 4-7, ... keys cost differently for each key. The last are those of 64 and more.
const CLASSES: usize = 7;

/// The trials of one direction of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trials {
    /// The one that is being made.
    now: Option<Trial>,
    /// What the latest found, by the length of lists.
    found: [Found; CLASSES],
    /// Choices since the latest trial, and with how many the next begins.
    choices: u64,
    next: u64,
    /// Which trial the latest is, those counted that were left out.
    number: u64,
}

#[derive(Debug, Clone, Copy)]
struct Trial {
    /// What is being tried.
    read: Read,
    since: Instant,
    /// By the length of lists, for keys.
    lists: [Spent; CLASSES],
    /// For rows.
    buckets: Spent,
    /// Reads of what is being tried that did not count.
    in_vain: u32,
}

/// What reads took.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    reads: u32,
    /// Of the servers' time.
    seconds: f64,
    /// Keys or rows.
    units: f64,
}

/// How many rows of a bucket took as long as a key of a list, in the latest trials, the oldest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found([f64; LATEST]);

impl Default for Trials {
    fn default() -> Trials {
        let found = [Found::default(); CLASSES];
        Trials { now: None, found, choices: 0, next: FIRST_TRIAL, number: 0 }
    }
}

impl Trials {
    /// What is known of lists of so many keys.
    pub(super) fn found(&self, list: usize) -> Found {
        self.found.get(class(list)).copied().unwrap_or_default()
    }

    /// Which way the next choice tries, if it does, where one costs so many times the other.
    pub(super) fn next(&mut self, times: f64) -> Option<Read> {
        self.go_on();
        if self.now.is_none() && times < HOPELESS {
            self.choices += 1;
            if self.choices >= self.next {
                (self.number, self.choices) = (self.number + 1, 0);
                self.next = (self.next * 2).min(RAREST_TRIAL);
                let is_made =
                    times < CLEAR || self.number <= 2 || self.number.is_multiple_of(CLEAR_TRIALS);
                self.now = is_made.then(Trial::new);
            }
        }
        self.now.filter(|_| times < 2.0 * HOPELESS).map(|trial| trial.read)
    }

    #[cfg(test)]
    pub(super) fn tried(&self) -> Option<Read> {
        self.now.map(|trial| trial.read)
    }

    /// Takes note of a read: how many seconds of the servers' time it took for so many keys or rows, or
    /// `None` where that is not known.
    pub(super) fn count(&mut self, read: Read, spent: Option<(f64, usize)>) {
        let is_bucket = read == Read::Bucket;
        let tried = |trial: &&mut Trial| (trial.read == Read::Bucket) == is_bucket;
        let Some(trial) = self.now.as_mut().filter(tried) else { return };
        let Some((seconds, units)) = spent else {
            trial.in_vain += 1;
            return;
        };
        let all =
            if is_bucket { Some(&mut trial.buckets) } else { trial.lists.get_mut(class(units)) };
        if let Some(all) = all {
            *all = all.and(Spent { reads: 1, seconds, units: units.max(1) as f64 });
        }
    }

    /// Goes on from one way to the other when it is time, or ends the trial.
    fn go_on(&mut self) {
        let Some(trial) = &mut self.now else { return };
        let (spent, most_in_vain) = match trial.read {
            Read::Bucket => (trial.buckets, BUCKETS_IN_VAIN),
            _ => (trial.lists.into_iter().fold(Spent::default(), Spent::and), LISTS_IN_VAIN),
        };
        let is_given_up = trial.in_vain >= most_in_vain || trial.since.elapsed() > OLDEST;
        if is_given_up {
            // It is no trial: the next one is the same as this.
            (self.now, self.number) = (None, self.number.saturating_sub(1));
        } else if spent.is_enough() && trial.read == Read::Bucket {
            let trial = *trial;
            self.now = None;
            self.learn(&trial);
        } else if spent.is_enough() {
            (trial.read, trial.in_vain) = (Read::Bucket, 0);
        }
    }

    fn learn(&mut self, trial: &Trial) {
        let mut is_surprise = false;
        for (found, lists) in self.found.iter_mut().zip(&trial.lists) {
            if lists.reads >= ENOUGH_READS {
                let rows_per_key = lists.each() / trial.buckets.each();
                let times = rows_per_key / found.median();
                is_surprise |= !(1.0 / SURPRISE..SURPRISE).contains(&times);
                found.add(rows_per_key);
            }
        }
        if is_surprise {
            // As the second, which is made in any case.
            (self.next, self.number) = (SOON, 1);
        }
    }
}

impl Trial {
    fn new() -> Trial {
        let (lists, buckets) = Default::default();
        Trial { read: Read::Keys, since: Instant::now(), lists, buckets, in_vain: 0 }
    }
}

impl Spent {
    fn and(self, more: Spent) -> Spent {
        Spent {
            reads: self.reads + more.reads,
            seconds: self.seconds + more.seconds,
            units: self.units + more.units,
        }
    }

    fn is_enough(&self) -> bool {
        self.reads >= ENOUGH_READS && self.seconds >= ENOUGH_TIME
    }

    fn each(&self) -> f64 {
        self.seconds / self.units
    }
}

impl Default for Found {
    fn default() -> Found {
        Found([ROWS_PER_KEY; LATEST])
    }
}

impl Found {
    /// Adds what the newest trial found, in place of what the oldest did.
    fn add(&mut self, rows_per_key: f64) {
        self.0.rotate_left(1);
        if let Some(newest) = self.0.last_mut() {
            *newest = rows_per_key;
        }
    }

    pub(super) fn median(&self) -> f64 {
        let mut sorted = self.0;
        let (_, median, _) = sorted.select_nth_unstable_by(LATEST / 2, f64::total_cmp);
        *median
    }

    /// How many times one way costs the other, where lists have so many keys for each row of their bucket; by
    /// the trial that says least, or where nothing had been measured.
    pub(super) fn times(&self, keys_per_row: f64) -> f64 {
        let all = self.0.into_iter().chain([ROWS_PER_KEY]).map(|per_key| per_key * keys_per_row);
        all.map(|times| times.max(1.0 / times)).fold(f64::INFINITY, f64::min)
    }
}

/// Which lists are like those of so many keys.
fn class(keys: usize) -> usize {
    (keys.max(1).ilog2() as usize).min(CLASSES - 1)
}
