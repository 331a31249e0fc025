//! How much the reliability tests do: seconds under `cargo test`, as much as wanted with
//! `IDMATCH_RUNS` and `IDMATCH_SECONDS` (see `reliability.mk`). `IDMATCH_SEED` makes all choices.

use std::env;
use std::io::Write;
use std::time::Duration;

const RUNS: &str = "IDMATCH_RUNS";
const SECONDS: &str = "IDMATCH_SECONDS";
const SEED: &str = "IDMATCH_SEED";

/// How often something is done.
pub(crate) fn runs(short: u64) -> u64 {
    number(RUNS).unwrap_or(short)
}

/// For how long.
pub(crate) fn seconds(short: u64) -> Duration {
    Duration::from_secs(number(SECONDS).unwrap_or(short))
}

/// The longest that a test waits for what must happen at some time.
pub(crate) const EVENT_TIMEOUT: Duration = Duration::from_secs(120);

/// Whether this is a long run, whose counts say how much was tested.
pub(crate) fn is_long() -> bool {
    number(RUNS).or(number(SECONDS)).is_some()
}

/// What all choices follow from. The moments that threads and processes meet at do not.
pub(crate) fn seed() -> u64 {
    number(SEED).unwrap_or(7)
}

/// One of so many places at which something can fail is tried; in a long run each is.
pub(crate) fn stride() -> usize {
    if number(RUNS).is_some() { 1 } else { 7 }
}

/// The places that are tried, of all there are. Which ones is chosen by the seed.
pub(crate) fn places() -> impl Iterator<Item = u64> {
    places_by(stride())
}

/// A third of them, for tests whose places take long; in a long run all there are.
pub(crate) fn few_places() -> impl Iterator<Item = u64> {
    places_by(few_stride())
}

/// Of how many places [`few_places`] has one.
pub(crate) fn few_stride() -> usize {
    if stride() == 1 { 1 } else { 3 * stride() }
}

fn places_by(stride: usize) -> impl Iterator<Item = u64> {
    (seed() % stride as u64..).step_by(stride)
}

/// Says what a test has done, for `docs/benchmarks/reliability.md` to quote.
pub(crate) fn report(figures: &str) {
    println!("{figures}");
}

/// Says that a test could not be done here. In a long run, which is made to quote its figures, that
/// is a failure.
pub(crate) fn skip(why: &str) {
    assert!(!is_long(), "cannot be tested here: {why}");
    // Past the harness, which shows nothing of what passes.
    std::io::stderr().write_all(format!("\nSKIPPED: {why}\n").as_bytes()).unwrap();
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{variable}={text}: {e}")))
}

/// Xorshift: the same choices in every run with the same seed.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Choices of one of many that share a seed: a thread, a run.
    pub(crate) fn new(seed: u64, number: u64) -> Random {
        let mixed = (seed << 20 ^ number).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = Random(mixed | 1);
        for _ in 0..4 {
            random.below(1);
        }
        random
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    /// Whether something that happens once in so many times happens now.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Brings things into any order.
    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        for end in (1..things.len()).rev() {
            things.swap(end, self.below(end + 1));
        }
    }
}
