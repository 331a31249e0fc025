//! Batches of several writers, which can be recognised wherever a row of them is read, and what
//! has become of them.
//!
//! A batch has rows in both directions under one well-known key, its **hub**, which it shares with its
//! neighbours. Each writer brings its batches one after the other, so whatever is read at one
//! moment must be the first ones of each writer, every one whole.

use super::question::{Question, ask};
use super::rows::Row;
use idmatch_model::{Pick, Side, Window};
use idmatch_store::{MatchQuery, Table};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// So many batches of each writer share a hub.
pub(crate) const HUB_BATCHES: u64 = 40;
/// Rows of a batch, in each direction.
const ROWS: usize = 5;

/// How many batches of each writer there are.
pub(crate) type Counts = Vec<u64>;

/// The rows of a batch.
pub(crate) fn marked(writer: usize, number: u64) -> Vec<Row> {
    let hub = hub_name(number / HUB_BATCHES);
    let rows = (0..ROWS).flat_map(|row| {
        let own = own_name(writer, number, row);
        let date = number as i64;
        [(hub.clone(), own.clone(), date), (own, hub.clone(), date)]
    });
    rows.collect()
}

fn hub_name(hub: u64) -> String {
    format!("hub {hub}")
}

fn own_name(writer: usize, number: u64, row: usize) -> String {
    format!("{writer}.{number}.{row}")
}

/// A hub, as many writers fill it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hub {
    pub(crate) number: u64,
    pub(crate) writers: usize,
}

impl Hub {
    fn first(&self) -> u64 {
        self.number * HUB_BATCHES
    }

    /// What of some counts falls on this hub.
    pub(crate) fn share(&self, counts: &[u64]) -> Counts {
        let share = |count: &u64| count.saturating_sub(self.first()).min(HUB_BATCHES);
        counts.iter().map(share).collect()
    }

    /// How many batches of each writer the hub has, by one question on one side.
    pub(crate) fn by_answers(&self, table: &Table, side: Side) -> Result<Counts, String> {
        let question = Question::Answers(side, hub_name(self.number), Window::ALL);
        let rows = ask(table, &question).map_err(|e| e.chain())?;
        self.count(rows.iter().map(|(_, own, date)| (own.as_str(), *date)))
    }

    /// The same by one match, of the hub and of all that may be in it.
    pub(crate) fn by_match(&self, table: &Table, side: Side) -> Result<Counts, String> {
        let mut keys = vec![hub_name(self.number)];
        for number in self.first()..self.first() + HUB_BATCHES {
            for writer in 0..self.writers {
                keys.extend((0..ROWS).map(|row| own_name(writer, number, row)));
            }
        }
        let query = MatchQuery { by: side, pick: Pick::All, window: Window::ALL, positions: false };
        let found = ask(table, &Question::Match(Arc::new(keys), query)).map_err(|e| e.chain())?;
        let (of_hub, of_own): (Vec<&Row>, Vec<&Row>) =
            found[1..].iter().partition(|row| row.0 == hub_name(self.number));
        let of_hub = self.count(of_hub.iter().map(|(_, own, date)| (own.as_str(), *date)))?;
        let of_own = self.count(of_own.iter().map(|(own, _, date)| (own.as_str(), *date)))?;
        match of_hub == of_own {
            true => Ok(of_hub),
            false => Err(format!("one match: {of_hub:?} by the hub, {of_own:?} without it")),
        }
    }

    /// Both of both sides, of a table that does not change meanwhile.
    pub(crate) fn at_rest(&self, table: &Table) -> Result<Counts, String> {
        let all = [
            self.by_answers(table, Side::Id)?,
            self.by_answers(table, Side::PartnerId)?,
            self.by_match(table, Side::Id)?,
            self.by_match(table, Side::PartnerId)?,
        ];
        match all.iter().all(|counts| *counts == all[0]) {
            true => Ok(all[0].clone()),
            false => Err(format!("hub {}: ways to ask differ: {all:?}", self.number)),
        }
    }

    /// Each batch whole, and none without those before it.
    fn count<'a>(&self, own: impl Iterator<Item = (&'a str, i64)>) -> Result<Counts, String> {
        let mut rows: BTreeMap<(usize, u64), Vec<usize>> = BTreeMap::new();
        for (own, date) in own {
            let mut parts = own.split('.').map(|part| part.parse::<u64>().unwrap());
            let mut next = || parts.next().unwrap();
            let (writer, number, row) = (next() as usize, next(), next() as usize);
            if date != number as i64 {
                return Err(format!("{own} is dated {date}"));
            }
            rows.entry((writer, number)).or_default().push(row);
        }
        let mut counts = vec![0; self.writers];
        for ((writer, number), mut rows) in rows {
            rows.sort_unstable();
            if !rows.iter().copied().eq(0..ROWS) {
                return Err(format!("batch {number} of writer {writer} has the rows {rows:?}"));
            }
            if number != self.first() + counts[writer] {
                let before = number - 1;
                return Err(format!("batch {number} of writer {writer} is there without {before}"));
            }
            counts[writer] += 1;
        }
        Ok(counts)
    }
}

/// How many batches of each writer a table at rest has, and that there are none behind a gap.
pub(crate) fn marked_in(table: &Table, writers: usize) -> Result<Counts, String> {
    let mut counts = vec![0; writers];
    // One hub more than there is anything in: what is there at all must be whole.
    for number in 0.. {
        let found = Hub { number, writers }.at_rest(table)?;
        for (count, found) in counts.iter_mut().zip(&found) {
            if *found > 0 && *count != number * HUB_BATCHES {
                return Err(format!("hub {number} has {found} batches, those before {count}"));
            }
            *count += found;
        }
        if found.iter().all(|count| *count == 0) {
            break;
        }
    }
    Ok(counts)
}

/// How far each writer is: between what must be seen by whoever asks from now on, and what may be.
pub(crate) struct Progress {
    sure: Vec<AtomicU64>,
    begun: Vec<AtomicU64>,
}

impl Progress {
    pub(crate) fn new(writers: usize) -> Progress {
        let zeros = || (0..writers).map(|_| AtomicU64::new(0)).collect();
        Progress { sure: zeros(), begun: zeros() }
    }

    /// A writer begins its next batch; its number.
    pub(crate) fn begin(&self, writer: usize) -> u64 {
        self.begun[writer].fetch_add(1, SeqCst)
    }

    /// So many batches of each writer were acknowledged, or seen.
    pub(crate) fn raise(&self, counts: &[u64]) {
        for (sure, count) in self.sure.iter().zip(counts) {
            sure.fetch_max(*count, SeqCst);
        }
    }

    /// The same for one writer.
    pub(crate) fn acknowledge(&self, writer: usize, number: u64) {
        self.sure[writer].fetch_max(number + 1, SeqCst);
    }

    pub(crate) fn sure(&self) -> Counts {
        self.sure.iter().map(|count| count.load(SeqCst)).collect()
    }

    pub(crate) fn begun(&self) -> Counts {
        self.begun.iter().map(|count| count.load(SeqCst)).collect()
    }

    /// Asks something about a hub: what was sure before must be in the answer, and nothing that was
    /// not begun when it came. From then on what was seen is sure.
    pub(crate) fn check(
        &self,
        hub: Hub,
        begun: &Progress,
        ask: impl FnOnce() -> Result<Counts, String>,
    ) -> Result<(), String> {
        let least = hub.share(&self.sure());
        let seen = ask()?;
        let most = hub.share(&begun.begun());
        if !is_between(&seen, &least, &most) {
            return Err(format!("hub {}: {seen:?} is not in {least:?}..={most:?}", hub.number));
        }
        let whole = |count: &u64| if *count > 0 { hub.first() + count } else { 0 };
        self.raise(&seen.iter().map(whole).collect::<Counts>());
        Ok(())
    }
}

/// Whether each count is in its bounds.
pub(crate) fn is_between(counts: &[u64], least: &[u64], most: &[u64]) -> bool {
    let mut all = counts.iter().zip(least).zip(most);
    all.all(|((count, least), most)| least <= count && count <= most)
}

/// Numbers of hubs to look at: where some writer is, and what was full long ago.
pub(crate) fn hub_numbers(counts: &[u64]) -> Range<u64> {
    0..counts.iter().max().unwrap_or(&0) / HUB_BATCHES + 1
}

/// Becomes true also if the thread that has it panics: the others must end then.
pub(crate) struct WhenDropped<'a>(pub(crate) &'a AtomicBool);

impl Drop for WhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
