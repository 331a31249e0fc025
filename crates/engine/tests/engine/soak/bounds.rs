//! What is known of a table while others write it: of every pair the dates that were acknowledged, and
//! those that were begun; of both those whose erasure was. An answer must lie between.

use crate::common::Row;
use idmatch_model::{Keep, SeenAt, Side, Target, Window};
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

    /// The places with this key of a side.
    pub(super) fn all_of(generation: usize, side: Side, key: usize) -> Vec<Place> {
        (0..GRID).map(|answer| Place::of(generation, side, key, answer)).collect()
    }

    /// This pair, as what is to be erased.
    pub(super) fn target(&self) -> Target {
        let (id, partner_id, _) = self.row(0);
        Target::Pair { id, partner_id }
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
    /// Whose erasure was begun, and acknowledged.
    erasing: Vec<AtomicU64>,
    erased: Vec<AtomicU64>,
}

/// What is known of a pair before somebody asks: what was acknowledged, and what of it was erased.
#[derive(Debug, Clone, Copy)]
struct Known {
    acknowledged: u64,
    erased: u64,
}

impl Bounds {
    pub(super) fn new(keep: Keep, generations: usize) -> Bounds {
        let zeros = || (0..generations * GRID * GRID).map(|_| AtomicU64::new(0)).collect();
        Bounds { keep, begun: zeros(), acknowledged: zeros(), erasing: zeros(), erased: zeros() }
    }

    /// What is acknowledged now, for good.
    pub(super) fn acknowledged(&self) -> Bounds {
        let copy = |bits: &AtomicU64| AtomicU64::new(bits.load(SeqCst));
        let all = |bits: &[AtomicU64]| -> Vec<AtomicU64> { bits.iter().map(copy).collect() };
        let (acknowledged, erased) = (all(&self.acknowledged), all(&self.erased));
        Bounds { keep: self.keep, begun: Vec::new(), acknowledged, erasing: Vec::new(), erased }
    }

    pub(super) fn begin(&self, place: Place, slot: usize) {
        self.begun[at(place)].fetch_or(1 << slot, SeqCst);
    }

    pub(super) fn acknowledge(&self, place: Place, slot: usize) {
        self.acknowledged[at(place)].fetch_or(1 << slot, SeqCst);
    }

    /// All dates up to one are about to be erased.
    pub(super) fn begin_erasure(&self, place: Place, last: usize) {
        self.erasing[at(place)].fetch_or(u64::MAX >> (DATES - 1 - last), SeqCst);
    }

    pub(super) fn acknowledge_erasure(&self, place: Place, last: usize) {
        self.erased[at(place)].fetch_or(u64::MAX >> (DATES - 1 - last), SeqCst);
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
        let known = self.known(generation, side, key);
        let seen = ask();
        self.judge_key(generation, side, key, window, &known, &seen);
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
        let known = self.known(generation, side, key);
        let seen = ask();
        now.judge_key(generation, side, key, &Slots::ALL, &known, &seen);
    }

    /// Asks for what goes with all keys of a generation, by one match.
    pub(super) fn check_match(
        &self,
        generation: usize,
        side: Side,
        window: &Slots,
        ask: impl FnOnce() -> Vec<Row>,
    ) {
        let known: Vec<Vec<Known>> =
            (0..GRID).map(|key| self.known(generation, side, key)).collect();
        let rows = ask();
        for (key, known) in known.iter().enumerate() {
            let text = Place::key(generation, side, key);
            let of_key = rows.iter().filter(|row| row.0 == text);
            let seen: Seen = of_key
                .map(|row| (Place::find(generation, side.other(), &row.1), slot(row.2)))
                .collect();
            self.judge_key(generation, side, key, window, known, &seen);
        }
    }

    /// Asks for all dates of a pair.
    pub(super) fn check_history(&self, place: Place, ask: impl FnOnce() -> Vec<usize>) {
        let known = self.known_of(place);
        let slots = ask();
        let (least, most) = self.least_and_most(place, known);
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

    fn known(&self, generation: usize, side: Side, key: usize) -> Vec<Known> {
        let places = Place::all_of(generation, side, key);
        places.into_iter().map(|place| self.known_of(place)).collect()
    }

    fn known_of(&self, place: Place) -> Known {
        let [acknowledged, erased] =
            [&self.acknowledged, &self.erased].map(|bits| bits[at(place)].load(SeqCst));
        Known { acknowledged, erased }
    }

    /// What a pair must show at least, and at most, after it was asked for.
    fn least_and_most(&self, place: Place, before: Known) -> (u64, u64) {
        let [begun, erasing] =
            [&self.begun, &self.erasing].map(|bits| bits[at(place)].load(SeqCst));
        (before.acknowledged & !erasing, begun & !before.erased)
    }

    fn judge_key(
        &self,
        generation: usize,
        side: Side,
        key: usize,
        window: &Slots,
        known: &[Known],
        seen: &Seen,
    ) {
        for (answer, known) in known.iter().enumerate() {
            let place = Place::of(generation, side, key, answer);
            let (least, most) = self.least_and_most(place, *known);
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
            assert!(is_possible(self.keep, least, most, window.bits(), date), "{}", words());
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
