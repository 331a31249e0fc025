//! When both ways to read the keys of a bucket are tried, and what a trial measures.
//!
//! A trial is lists for a while, then whole buckets for a while, each until it had enough of the servers'
//! time to be compared: some reads of either could meet a pause, and it would be theirs alone. What it costs
//! is that time for the way that is dearer, so that it is made ever less often.
//!
//! Must not know which way is chosen.

use super::plan::Read;

/// So many rows of a bucket take as long as a key of a list, where nothing was measured.
pub(super) const ROWS_PER_KEY: f64 = 2.2;
/// Trials that count. As long as there were fewer, the number above counts for each one that is missing.
const LATEST: usize = 5;
/// Each way is tried until so many seconds of the servers' time and so many reads of it counted.
const ENOUGH_TIME: f64 = 0.1;
const ENOUGH_READS: u32 = 16;
/// A trial is given up when so many reads did not count: there are others all the time.
const MOST_IN_VAIN: u32 = 1_024;
/// The first trial begins after so many choices, so that a small match pays for none; then each time after
/// twice as many, up to the second number.
const FIRST_TRIAL: u64 = 1_024;
const RAREST_TRIAL: u64 = 16_384;
/// From the third on, a trial is left out where one way costs so many times the other; but one of so many is
/// made all the same.
const CLEAR: f64 = 2.0;
const CLEAR_TRIALS: u64 = 8;
/// Where it costs so many times the other, nothing is tried, and the choice does not count.
const HOPELESS: f64 = 16.0;
/// Lists of 1, 2-3, 4-7, ... keys cost differently for each key.
pub(super) const CLASSES: usize = 8;

/// The trials of one direction of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trials {
    /// What is being tried, and what that trial has measured so far.
    phase: Option<Read>,
    trial: Trial,
    /// Reads of what is being tried that did not count.
    in_vain: u32,
    /// Choices since the latest trial, and with how many the next begins.
    choices: u64,
    next: u64,
    /// Which trial the latest is, those counted that were left out.
    number: u64,
}

/// What was measured in a trial.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trial {
    /// By the length of lists, for keys.
    lists: [Spent; CLASSES],
    /// For rows.
    buckets: Spent,
}

/// How many rows of a bucket took as long as a key of a list, in the latest trials, the oldest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found([f64; LATEST]);

/// What reads took.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    reads: u32,
    /// Of the servers' time.
    seconds: f64,
    /// Keys or rows.
    units: f64,
}

impl Default for Found {
    fn default() -> Found {
        Found([ROWS_PER_KEY; LATEST])
    }
}

impl Found {
    /// Adds what the newest trial found, in place of what the oldest did.
    pub(super) fn add(&mut self, rows_per_key: f64) {
        let [_, others @ ..] = self.0;
        self.0 = [rows_per_key; LATEST];
        self.0.iter_mut().zip(others).for_each(|(to, from)| *to = from);
    }

    pub(super) fn median(&self) -> f64 {
        let mut sorted = self.0;
        let (_, median, _) = sorted.select_nth_unstable_by(LATEST / 2, f64::total_cmp);
        *median
    }

    /// How many times one way costs the other, where lists have so many keys for each row of their bucket; by
    /// the trial that says least.
    pub(super) fn times(&self, keys_per_row: f64) -> f64 {
        let times = self.0.map(|per_key| per_key * keys_per_row);
        times.into_iter().map(|times| times.max(1.0 / times)).fold(f64::INFINITY, f64::min)
    }
}

impl Default for Trials {
    fn default() -> Trials {
        let trial = Trial::default();
        Trials { phase: None, trial, in_vain: 0, choices: 0, next: FIRST_TRIAL, number: 0 }
    }
}

impl Trials {
    /// Which way the next choice tries, if it does, where one costs so many times the other.
    pub(super) fn next(&mut self, times: f64) -> Option<Read> {
        if times >= HOPELESS {
            return None;
        }
        if self.phase.is_none() {
            self.choices += 1;
            if self.choices >= self.next {
                (self.number, self.choices) = (self.number + 1, 0);
                self.next = (self.next * 2).min(RAREST_TRIAL);
                let is_made =
                    times < CLEAR || self.number <= 2 || self.number.is_multiple_of(CLEAR_TRIALS);
                (self.phase, self.trial) = (is_made.then_some(Read::Keys), Trial::default());
            }
        }
        self.phase
    }

    /// Goes on from one way to the other when it is time. Gives what the trial found when it is over.
    pub(super) fn ended(&mut self) -> Option<Trial> {
        let spent = match self.phase? {
            Read::Bucket => self.trial.buckets,
            _ => self.trial.lists.into_iter().fold(Spent::default(), Spent::and),
        };
        if self.in_vain >= MOST_IN_VAIN {
            (self.phase, self.in_vain) = (None, 0);
        } else if spent.is_enough() {
            (self.in_vain, self.phase) =
                (0, (self.phase != Some(Read::Bucket)).then_some(Read::Bucket));
            return self.phase.is_none().then_some(self.trial);
        }
        None
    }

    /// The next trial is to be soon.
    pub(super) fn again_soon(&mut self) {
        (self.next, self.number) = (FIRST_TRIAL, 1);
    }

    /// Takes note of a read: how many seconds of the servers' time it took for so many keys or rows, or
    /// `None` where that is not known.
    pub(super) fn count(&mut self, read: Read, spent: Option<(f64, usize)>) {
        if self.phase.is_none() {
            return;
        }
        let Some((seconds, units)) = spent else {
            let is_bucket = read == Read::Bucket;
            self.in_vain += u32::from((self.phase == Some(Read::Bucket)) == is_bucket);
            return;
        };
        let all = match read {
            Read::Bucket => Some(&mut self.trial.buckets),
            _ => self.trial.lists.get_mut(class(units)),
        };
        if let Some(all) = all {
            *all = all.and(Spent { reads: 1, seconds, units: units.max(1) as f64 });
        }
    }
}

impl Trial {
    /// For each length of lists, how many rows of a bucket took as long as a key.
    pub(super) fn rows_per_key(&self) -> [Option<f64>; CLASSES] {
        let row = self.buckets.each();
        self.lists.map(|lists| (lists.reads >= ENOUGH_READS).then(|| lists.each() / row))
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

/// Which lists are like those of so many keys.
pub(super) fn class(keys: usize) -> usize {
    (keys.max(1).ilog2() as usize).min(CLASSES - 1)
}
