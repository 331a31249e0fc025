//! What is known of a table while others write it: of every pair the dates that were acknowledged, and
//! those that were begun. An answer must lie between.

use crate::common::Row;
use idmatch_model::{Keep, SeenAt, Side, Window};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Keys of each side in a generation: every one may go with every other.
pub(super) const GRID: usize = 16;
/// Dates that a pair may have: each is a bit.
pub(super) const DATES: usize = 64;
const FIRST: i64 = 1_700_000_000_000;
const STEP: i64 = 3_600_001;

/// Answers to a question by a key: the number of the other key, and of the date.
pub(super) type Seen = Vec<(usize, usize)>;

/// The date with this number.
pub(super) fn date(slot: usize) -> i64 {
    FIRST + slot as i64 * STEP
}

/// The number of a date.
pub(super) fn slot(date: i64) -> usize {
    assert_eq!((date - FIRST) % STEP, 0, "a date that nobody wrote: {date}");
    ((date - FIRST) / STEP) as usize
}

/// Dates by their numbers.
#[derive(Debug, Clone)]
pub(super) struct Slots(pub(super) Range<usize>);

impl Slots {
    pub(super) const ALL: Slots = Slots(0..DATES);

    pub(super) fn window(&self) -> Window {
        let instant = |slot| SeenAt::from_millis(date(slot)).ok();
        match self.0 == Slots::ALL.0 {
            true => Window::ALL,
            false => Window::new(instant(self.0.start), instant(self.0.end)).unwrap(),
        }
    }

    fn bits(&self) -> u64 {
        self.0.clone().fold(0, |bits, slot| bits | 1 << slot)
    }
}

/// A pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) generation: usize,
    pub(super) id: usize,
    pub(super) partner_id: usize,
}

impl Place {
    /// A key's text: of every kind that is packed in its own way.
    pub(super) fn key(generation: usize, side: Side, number: usize) -> String {
        let all = (generation * 2 + side as usize) * GRID + number;
        match number % 4 {
            0 => format!("{:032x}", (all as u128 + 1) * 0x9e37_79b9_7f4a_7c15_0123_4567),
            1 => format!("{}", all as u64 * 1_000_003),
            2 => format!("{all:08x}-0000-4000-8000-000000000000"),
            _ => format!("person {all}"),
        }
    }

    /// The number of a key.
    pub(super) fn find(generation: usize, side: Side, key: &str) -> usize {
        let found = (0..GRID).find(|number| Place::key(generation, side, *number) == key);
        found.unwrap_or_else(|| panic!("{key} is not of generation {generation}"))
    }

    pub(super) fn row(&self, slot: usize) -> Row {
        let id = Place::key(self.generation, Side::Id, self.id);
        (id, Place::key(self.generation, Side::PartnerId, self.partner_id), date(slot))
    }

    fn of(generation: usize, side: Side, key: usize, answer: usize) -> Place {
        match side {
            Side::Id => Place { generation, id: key, partner_id: answer },
            Side::PartnerId => Place { generation, id: answer, partner_id: key },
        }
    }
}

/// The dates of every pair as bits.
pub(super) struct Bounds {
    keep: Keep,
    begun: Vec<AtomicU64>,
    acknowledged: Vec<AtomicU64>,
}

impl Bounds {
    pub(super) fn new(keep: Keep, generations: usize) -> Bounds {
        let zeros = || (0..generations * GRID * GRID).map(|_| AtomicU64::new(0)).collect();
        Bounds { keep, begun: zeros(), acknowledged: zeros() }
    }

    /// What is acknowledged now, for good.
    pub(super) fn acknowledged(&self) -> Bounds {
        let copy = |bits: &AtomicU64| AtomicU64::new(bits.load(SeqCst));
        let acknowledged: Vec<AtomicU64> = self.acknowledged.iter().map(copy).collect();
        Bounds { keep: self.keep, begun: Vec::new(), acknowledged }
    }

    pub(super) fn begin(&self, place: Place, slot: usize) {
        self.begun[at(place)].fetch_or(1 << slot, SeqCst);
    }

    pub(super) fn acknowledge(&self, place: Place, slot: usize) {
        self.acknowledged[at(place)].fetch_or(1 << slot, SeqCst);
    }

    /// Asks for what goes with a key.
    pub(super) fn check_key(
        &self,
        generation: usize,
        side: Side,
        key: usize,
        window: &Slots,
        ask: impl FnOnce() -> Seen,
    ) {
        let least = self.least(generation, side, key);
        let seen = ask();
        self.judge_key(generation, side, key, window, &least, &seen);
    }

    /// The same, with what was acknowledged at an earlier time, and what was begun until now.
    pub(super) fn check_key_until(
        &self,
        generation: usize,
        side: Side,
        key: usize,
        now: &Bounds,
        ask: impl FnOnce() -> Seen,
    ) {
        let least = self.least(generation, side, key);
        let seen = ask();
        now.judge_key(generation, side, key, &Slots::ALL, &least, &seen);
    }

    /// Asks for what goes with all keys of a generation, by one match.
    pub(super) fn check_match(
        &self,
        generation: usize,
        side: Side,
        window: &Slots,
        ask: impl FnOnce() -> Vec<Row>,
    ) {
        let least: Vec<Vec<u64>> = (0..GRID).map(|key| self.least(generation, side, key)).collect();
        let rows = ask();
        for (key, least) in least.iter().enumerate() {
            let text = Place::key(generation, side, key);
            let of_key = rows.iter().filter(|row| row.0 == text);
            let seen: Seen = of_key
                .map(|row| (Place::find(generation, side.other(), &row.1), slot(row.2)))
                .collect();
            self.judge_key(generation, side, key, window, least, &seen);
        }
    }

    /// Asks for all dates of a pair.
    pub(super) fn check_history(&self, place: Place, ask: impl FnOnce() -> Vec<usize>) {
        let least = self.acknowledged[at(place)].load(SeqCst);
        let slots = ask();
        let most = self.begun[at(place)].load(SeqCst);
        let seen = slots.iter().fold(0, |bits, slot| bits | 1u64 << slot);
        let words = format!("{place:?}: {slots:?}, acknowledged {least:#x}, begun {most:#x}");
        assert!(slots.is_sorted_by(|a, b| a > b), "{words}");
        match self.keep {
            Keep::All => assert!(seen & least == least && seen & !most == 0, "{words}"),
            Keep::Last => {
                assert!(slots.len() <= 1, "{words}");
                assert!(is_possible(self.keep, least, most, u64::MAX, newest(seen)), "{words}");
            }
        }
    }

    fn least(&self, generation: usize, side: Side, key: usize) -> Vec<u64> {
        let of = |answer| at(Place::of(generation, side, key, answer));
        (0..GRID).map(|answer| self.acknowledged[of(answer)].load(SeqCst)).collect()
    }

    fn judge_key(
        &self,
        generation: usize,
        side: Side,
        key: usize,
        window: &Slots,
        least: &[u64],
        seen: &Seen,
    ) {
        for (answer, least) in least.iter().enumerate() {
            let place = Place::of(generation, side, key, answer);
            let most = self.begun[at(place)].load(SeqCst);
            let mut dates = seen.iter().filter(|(number, _)| *number == answer);
            let date = dates.next().map(|(_, slot)| *slot);
            let words = || {
                format!(
                    "{:?}, {side:?}, {place:?}, {window:?}: {date:?}, acknowledged {least:#x}, \
                     begun {most:#x}",
                    self.keep
                )
            };
            assert_eq!(dates.next(), None, "twice: {}", words());
            assert!(is_possible(self.keep, *least, most, window.bits(), date), "{}", words());
        }
    }
}

/// Whether a pair may show a date (or none) in a window, if it has at least some dates and at most others.
fn is_possible(keep: Keep, least: u64, most: u64, window: u64, date: Option<usize>) -> bool {
    // The newest date of the pair, of those that count, is one of these.
    let (least, most) = match keep {
        Keep::All => (least & window, most & window),
        Keep::Last => (least, most),
    };
    let may_be_newest = |slot: usize| most >> slot & 1 == 1 && newest(least) <= Some(slot);
    match date {
        Some(slot) => window >> slot & 1 == 1 && may_be_newest(slot),
        None => least == 0 || (0..DATES).any(|slot| window >> slot & 1 == 0 && may_be_newest(slot)),
    }
}

fn newest(bits: u64) -> Option<usize> {
    bits.checked_ilog2().map(|slot| slot as usize)
}

fn at(place: Place) -> usize {
    (place.generation * GRID + place.id) * GRID + place.partner_id
}
