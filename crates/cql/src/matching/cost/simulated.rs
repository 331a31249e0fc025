//! Tests: what is chosen while a simulated server is read from, which does one thing after the other.

use super::*;
use std::collections::VecDeque;
use std::iter;

/// Reads that are under way at once, as in a match.
const AT_ONCE: usize = 64;
const LIST: usize = 100;
const ROWS: usize = 4_000;
const BUCKETS: usize = 1_250;
/// Choices in which three trials are made.
const LEARNT: usize = 10_000;
/// Buckets that a trial reads in the dearer way, at most.
const TRIED: usize = 400;

/// A server that answers one read after the other.
struct Server {
    costs: Costs,
    /// What it has done, in microseconds.
    now: u64,
    /// What a row of a bucket and a key of a list take.
    row: u64,
    key: u64,
    /// It pauses once in each trial, when such reads are tried.
    pauses: Option<Read>,
    before: Option<Read>,
}

impl Server {
    fn new(row: u64, key: u64) -> Server {
        let costs = Costs::default();
        Server { costs, now: 0, row, key, pauses: None, before: None }
    }

    /// Matches so many keys of each of some buckets; gives how many buckets were read whole.
    fn matches(&mut self, keys: usize, buckets: usize) -> usize {
        self.matches_each(&mut iter::repeat_n(keys, buckets))
    }

    fn matches_each(&mut self, buckets: &mut dyn Iterator<Item = usize>) -> usize {
        let costs = &self.costs;
        let mut whole = 0;
        // How a bucket is read, of how many keys, and in how many reads; after that another one.
        let mut next = |(read, keys, more): (Read, usize, usize)| {
            if more > 0 {
                return Some((read, keys, more - 1));
            }
            let keys = buckets.next()?;
            let lists = keys.div_ceil(LIST);
            let read = costs.choose(keys, keys / lists);
            whole += usize::from(read == Read::Bucket);
            Some(if read == Read::Bucket {
                (read, keys, 0)
            } else {
                (read, keys / lists, lists - 1)
            })
        };
        let mut waiting = VecDeque::new();
        while let Some(job) = next((Read::Keys, 0, 0)) {
            waiting.push_back((costs.begin(job.0), self.now, job));
            if waiting.len() == AT_ONCE {
                break;
            }
        }
        while let Some((started, since, job)) = waiting.pop_front() {
            let (read, keys, _) = job;
            let rows = if read == Read::Keys { keys } else { ROWS };
            let each = if read == Read::Keys { self.key } else { self.row };
            self.now += each * rows as u64;
            let tried = costs.lock().trials.tried();
            if tried.is_some() && tried != self.before && tried == self.pauses {
                self.now += 500_000;
            }
            self.before = tried;
            started.took(Duration::from_micros(self.now - since), keys, rows as u64);
            drop(started);
            if let Some(job) = next(job) {
                waiting.push_back((costs.begin(job.0), self.now, job));
            }
        }
        whole
    }

    /// Matches as often as said, and gives the most buckets that a match read in the way that costs more.
    fn most_wrong(&mut self, keys: usize, matches: usize) -> usize {
        let lists_are_better = keys as u64 * self.key < ROWS as u64 * self.row;
        let wrong = |whole| if lists_are_better { whole } else { BUCKETS - whole };
        (0..matches).map(|_| wrong(self.matches(keys, BUCKETS))).max().unwrap()
    }

    fn rows_per_key(&self) -> f64 {
        self.costs.lock().trials.found(LIST).median()
    }
}

#[test]
fn the_cheaper_read_is_chosen_for_a_tenth_and_for_most_keys() {
    for (row, key) in [(1, 2), (1, 4), (2, 3)] {
        for keys in [400, 3_200] {
            let wrong = Server::new(row, key).most_wrong(keys, 20);
            assert!(wrong < TRIED, "{wrong} of {keys} keys");
        }
    }
}

#[test]
fn servers_that_are_unlike_others_are_understood() {
    // Lists cost much or little, so that whole buckets are better for a tenth, and lists for most.
    for (row, key, keys) in [(1, 15, 400), (4, 1, 3_200)] {
        let mut server = Server::new(row, key);
        server.matches(keys, LEARNT);
        let wrong = server.most_wrong(keys, 20);
        assert!(wrong < TRIED, "{wrong} of {keys} keys");
        let expected = f64::from(u32::try_from(key).unwrap()) / row as f64;
        assert!((server.rows_per_key() / expected - 1.0).abs() < 0.1, "{expected}");
        assert!(server.costs.shown(LIST).contains(&format!(" {:.1} rows", server.rows_per_key())));
    }
}

#[test]
fn a_server_that_pauses_in_trials_spoils_no_choice() {
    for keys in [400, 3_200] {
        for pauses in [Read::Keys, Read::Bucket] {
            let mut server = Server::new(1, 2);
            server.pauses = Some(pauses);
            // Two trials, and they are seen before the third.
            server.matches(keys, 5_600);
            server.pauses = None;
            let wrong = server.most_wrong(keys, 20);
            assert!(wrong < TRIED, "{wrong} of {keys} keys, paused in trials of {pauses:?}");
        }
    }
}

#[test]
fn while_lists_are_slow_for_some_time_the_choice_stays() {
    for warm in 0..20 {
        let mut server = Server::new(1, 2);
        server.matches(400, warm * BUCKETS);
        server.key = 60;
        server.matches(400, BUCKETS);
        server.key = 2;
        let wrong = server.most_wrong(400, 4);
        assert!(wrong < TRIED, "{wrong} after it, {warm} matches before");
    }
}

#[test]
fn servers_that_change_are_noticed() {
    // Soon where the ways are close, later where they are not.
    for (keys, until) in [(1_200, 25_000), (400, 150_000)] {
        let mut server = Server::new(1, 2);
        server.matches(keys, 100_000);
        // Lists become slow.
        server.key = 20;
        server.matches(keys, until);
        let wrong = server.most_wrong(keys, 20);
        assert!(wrong < TRIED, "{wrong} of {keys} keys");
    }
}

#[test]
fn few_keys_of_a_bucket_are_never_worth_all_its_rows() {
    let whole = Server::new(1, 2).matches(100, 102_400);
    assert_eq!(whole, 100, "only to see how many rows there are");
}

#[test]
fn trials_are_made_also_where_they_are_not_worth_it_for_some_of_the_buckets() {
    let mut server = Server::new(1, 15);
    // Half of them have so few keys that a trial would not begin.
    let mut buckets = [90, 140].into_iter().cycle().take(30_000);
    server.matches_each(&mut buckets);
    assert!((server.rows_per_key() / 15.0 - 1.0).abs() < 0.1, "{}", server.rows_per_key());
}
