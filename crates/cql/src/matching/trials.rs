//! When both ways to read a bucket are tried, to know what they cost. Must not know what was measured.

use super::plan::Read;

/// Both ways are tried, one after the other, until so many reads of each counted.
const ENOUGH: u32 = 16;
/// The second trial begins so many choices after the first; then each time after twice as many, up to the
/// second number.
const NEXT_TRIAL: u64 = 1_024;
const RAREST_TRIAL: u64 = 16_384;
/// Where the latest trial is in doubt, the next begins so many choices after it.
const DOUBT: u64 = NEXT_TRIAL;
/// From the third on, a trial is left out where one way costs so many times the other; but one of so many is
/// made all the same.
const CLEAR: f64 = 2.0;
const CLEAR_TRIALS: u64 = 8;
/// Where it costs so many times the other, a trial waits for another population.
const HOPELESS: f64 = 16.0;

/// When both ways are tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trials {
    /// What is being tried, and how many reads of that counted.
    phase: Option<Read>,
    counted: u32,
    /// Choices since the latest trial, and with how many the next begins.
    choices: u64,
    next: u64,
    /// Which trial the latest is, those counted that were left out.
    number: u64,
}

impl Default for Trials {
    fn default() -> Trials {
        Trials { phase: Some(Read::Keys), counted: 0, choices: 0, next: NEXT_TRIAL, number: 1 }
    }
}

impl Trials {
    /// Which way is tried, where one costs so many times the other.
    pub(super) fn now(&self, times: f64, is_doubtful: bool) -> Option<Read> {
        self.phase.filter(|_| times < HOPELESS || is_doubtful)
    }

    /// Goes on from one way to the other, when enough reads of that counted. Says whether both were tried.
    pub(super) fn go_on(&mut self) -> bool {
        let Some(read) = self.phase.filter(|_| self.counted >= ENOUGH) else { return false };
        self.counted = 0;
        self.phase = (read == Read::Keys).then_some(Read::Bucket);
        self.phase.is_none()
    }

    /// Begins a trial when it is time, where one way costs so many times the other; it is doubtful where
    /// that is not the one that was chosen. Says whether it did.
    pub(super) fn begin(&mut self, times: f64, is_doubtful: bool) -> bool {
        if self.phase.is_some() {
            return false;
        }
        self.choices += 1;
        let (is_due, is_doubtful) =
            (self.choices >= self.next, is_doubtful && self.choices >= DOUBT);
        if !is_due && !is_doubtful {
            return false;
        }
        (self.number, self.choices, self.counted) = (self.number + 1, 0, 0);
        if is_due {
            self.next = (self.next * 2).min(RAREST_TRIAL);
        }
        let is_early = self.number == 2 || self.number.is_multiple_of(CLEAR_TRIALS);
        let is_made = is_doubtful || is_early || times < CLEAR;
        self.phase = is_made.then_some(Read::Keys);
        is_made
    }

    /// The latest trial changed the choice: it may have been spoilt itself.
    pub(super) fn again_soon(&mut self) {
        (self.next, self.number) = (NEXT_TRIAL, 1);
    }

    /// Takes note of a read that counted.
    pub(super) fn count(&mut self, read: Read) {
        let is_bucket = read == Read::Bucket;
        self.counted += u32::from(self.phase.is_some_and(|now| (now == Read::Bucket) == is_bucket));
    }
}
