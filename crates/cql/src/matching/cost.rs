//! What the reads of a match cost, as measured while they run.
//!
//! So many reads are under way at once that the time of one is mostly its wait for those before it: its
//! share of that time is what it costs, but only where those are of its own kind. A list among whole
//! buckets takes as long as they do, and says nothing of lists. So each way is tried for many buckets one
//! after the other, and the reads that meet others of the other kind are not counted. What is compared is
//! the time for a key of a list and for a row of a bucket, in the same trial; of the latest trials, the
//! median counts. What reads take between trials changes nothing: it is of one way only, and while servers
//! warm up or a node hangs, either way is slower than it was.
//!
//! Must not know how reads are sent.

use super::plan::Read;
use super::trials::{CLASSES, Found, Trial, Trials, class};
use crate::bucket;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A read counts where those of the other kind under way are at most this part of its own.
const OTHERS: f64 = 0.125;
/// How much the rows of a bucket count beside those of many before.
const WEIGHT: f64 = 1.0 / 32.0;

/// The costs of one direction of a table. Kept from match to match.
#[derive(Debug, Default)]
pub(crate) struct Costs(Mutex<Measured>);

#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    /// What the latest trials found, by the length of lists.
    found: [Found; CLASSES],
    /// Rows of a bucket.
    rows: Average,
    /// Reads under way: of keys, and of whole buckets.
    keys_now: u32,
    buckets_now: u32,
    trials: Trials,
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
        let keys_per_row = keys as f64 / measured.rows.value.max(1.0);
        let cheaper =
            |per_key: f64| if per_key * keys_per_row < 1.0 { Read::Keys } else { Read::Bucket };
        if let Some(trial) = measured.trials.ended() {
            let before = cheaper(measured.found(list).median());
            if measured.learn(&trial, list).is_some_and(|found| cheaper(found) != before) {
                measured.trials.again_soon();
            }
        }
        let found = measured.found(list);
        measured.trials.next(found.times(keys_per_row)).unwrap_or_else(|| cheaper(found.median()))
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
        let per_key = measured.found(keys.round() as usize).median();
        let (rows, known) = (measured.rows.value, measured.rows.count > 0.0);
        let are_said = if known { "have" } else { "are taken to have" };
        format!(
            "a key of such a list takes as long as {per_key:.1} rows of a bucket, and buckets {are_said} {rows:.0}"
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

    /// What is known of lists of this length.
    fn found(&self, keys: usize) -> Found {
        self.found.get(class(keys)).copied().unwrap_or_default()
    }

    /// Takes note of a trial. Gives what it found for lists of this length.
    fn learn(&mut self, trial: &Trial, list: usize) -> Option<f64> {
        let rows_per_key = trial.rows_per_key();
        for (found, new) in self.found.iter_mut().zip(rows_per_key) {
            if let Some(new) = new {
                found.add(new);
            }
        }
        rows_per_key.get(class(list)).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::trials::ROWS_PER_KEY;
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
    fn a_small_match_is_read_by_what_is_known_of_servers() {
        let costs = Costs::default();
        assert!((0..1_000).all(|_| costs.choose(79, 79) == Read::Keys));
        assert!(costs.shown(79.0).contains("2.2 rows of a bucket, and buckets are taken to have"));
        let costs = Costs::default();
        assert!((0..1_000).all(|_| costs.choose(3_200, LIST) == Read::Bucket));
        // Buckets are far larger than meant.
        costs.begin(Read::Bucket).took(Duration::from_millis(9), 3_200, 40_000);
        assert!((0..20).all(|_| costs.choose(3_200, LIST) == Read::Keys));
        assert!(costs.shown(100.0).contains("buckets have 40000"));
    }

    #[test]
    fn few_keys_of_a_bucket_are_never_worth_all_its_rows() {
        let mut server = Server::new(1, 2);
        assert_eq!(server.matches(100, 100_000, None), 0);
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
            }
        }
    }

    #[test]
    fn servers_that_are_unlike_others_are_understood() {
        // Lists cost much or little, so that whole buckets are better for a tenth, and lists for most.
        for (row, key, keys, better) in [(1, 15, 400, Read::Bucket), (4, 1, 3_200, Read::Keys)] {
            let mut server = Server::new(row, key);
            server.matches(keys, 5_000, None);
            let whole = server.matches(keys, 1_250, None);
            let wrong = if better == Read::Keys { whole } else { 1_250 - whole };
            assert!(wrong < 300, "{wrong} for {keys} keys");
            let per_key = server.costs.lock().found(LIST).median();
            let expected = f64::from(u32::try_from(key).unwrap()) / row as f64;
            assert!((per_key / expected - 1.0).abs() < 0.1, "{per_key}, not {expected}");
        }
    }

    #[test]
    fn a_server_that_pauses_spoils_no_choice() {
        // In the trial of lists, in that of buckets, and between.
        for pause in [10, 100, 150, 200, 250, 500, 700, 1_000] {
            for keys in [400, 3_200] {
                let mut server = Server::new(1, 2);
                for paused in [Some(pause), None, Some(pause), None] {
                    let whole = server.matches(keys, 1_250, paused);
                    let wrong = if keys == 400 { whole } else { 1_250 - whole };
                    assert!(wrong < 300, "{wrong} of {keys} keys, paused after {pause}");
                }
            }
        }
    }

    #[test]
    fn while_lists_are_slow_for_some_time_the_choice_stays() {
        for warm in 0..20 {
            let mut server = Server::new(1, 2);
            for _ in 0..warm {
                server.matches(400, 1_250, None);
            }
            server.key = 60;
            server.matches(400, 1_250, None);
            server.key = 2;
            for after in 0..4 {
                let whole = server.matches(400, 1_250, None);
                assert!(whole < 300, "{whole} in match {after} after it, {warm} before");
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
        let alone: Vec<_> = (0..16).map(|_| costs.begin(Read::Bucket)).collect();
        let among: Vec<_> = (0..16).map(|_| costs.begin(Read::Keys)).collect();
        let late: Vec<_> = (0..16).map(|_| costs.begin(Read::Bucket)).collect();
        let counts = |all: &[Started<'_>]| all.iter().filter(|one| one.own.is_some()).count();
        assert_eq!((counts(&alone), counts(&among), counts(&late)), (16, 0, 0));
        drop((alone, among, late));
        assert!(costs.begin(Read::Keys).own.is_some());
    }

    #[test]
    fn a_trial_that_others_disturb_is_given_up() {
        let costs = Costs::default();
        // A match that is told to read lists.
        let told: Vec<_> = (0..AT_ONCE).map(|_| costs.begin(Read::Keys)).collect();
        let mut whole = 0;
        for _ in 0..20_000 {
            let read = costs.choose(400, LIST);
            whole += usize::from(read == Read::Bucket);
            let (keys, rows) = if read == Read::Bucket { (400, ROWS) } else { (LIST, LIST) };
            costs.begin(read).took(Duration::from_millis(9), keys, rows as u64);
        }
        drop(told);
        assert!((1_000..2_500).contains(&whole), "{whole}");
        assert_eq!(costs.lock().found(LIST).median(), ROWS_PER_KEY);
    }
}
