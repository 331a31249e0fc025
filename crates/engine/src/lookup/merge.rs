//! The merge rule of the engine: an iterator over the rows of one key from several sources.
//!
//! Each source has the rows of the key in the order of answers: no pair twice with `keep="last"`, no
//! observation twice with `keep="all"`. The newest row of all sources comes first, so the first row of a value
//! is its newest one; later rows of it are superseded.

use super::RowCursor;
use crate::encoding::{Kind, Packed};
use idmatch_model::{Keep, SeenAt, Window};
use idmatch_store::Result;
use std::collections::HashSet;

/// The values that were met. Grows with the distinct values of one key.
type SeenValues = HashSet<(Kind, Box<[u8]>)>;

/// Up to this many values are compared one by one, without a set.
const FEW: usize = 16;

/// Answers for one key, newest first, ties by the text of the value.
pub(crate) struct MergeIterator<'s> {
    sources: Vec<RowCursor<'s>>,
    keep: Keep,
    window: Window,
    few: Vec<Packed<'s>>,
    seen: SeenValues,
}

impl<'s> MergeIterator<'s> {
    pub(crate) fn new(
        sources: Vec<RowCursor<'s>>,
        keep: Keep,
        window: Window,
    ) -> MergeIterator<'s> {
        MergeIterator { sources, keep, window, few: Vec::new(), seen: SeenValues::new() }
    }

    fn move_few_to_set(&mut self) {
        let owned = self.few.drain(..).map(|value| (value.kind, value.payload.into()));
        self.seen.extend(owned);
    }

    /// Whether a value is met for the first time.
    fn is_first(&mut self, value: Packed<'s>) -> bool {
        if !self.seen.is_empty() {
            return self.seen.insert((value.kind, value.payload.into()));
        }
        if self.few.contains(&value) {
            return false;
        }
        self.few.push(value);
        if self.few.len() > FEW {
            self.move_few_to_set();
        }
        true
    }

    /// Whether a value can come more than once.
    fn repeats(&self) -> bool {
        self.sources.len() > 1 || self.keep == Keep::All
    }

    /// The next answer.
    pub(crate) fn next(&mut self) -> Result<Option<(SeenAt, Packed<'s>)>> {
        while let Some((seen_at, value)) = self.next_row()? {
            if !self.window.reaches(seen_at) {
                // All later rows are older.
                break;
            }
            let past = self.window.is_past(seen_at);
            // With keep="all" an observation after the window says nothing about observations inside it.
            if self.repeats() && !(past && self.keep == Keep::All) && !self.is_first(value) {
                continue;
            }
            if !past {
                return Ok(Some((seen_at, value)));
            }
        }
        Ok(None)
    }

    /// The number of answers. Reads values only where they can repeat, and dates only where the window asks
    /// for them.
    pub(crate) fn count(&mut self) -> Result<u64> {
        match (self.repeats(), self.window.is_all()) {
            (true, true) => self.count_values(),
            (true, false) => {
                let mut count = 0;
                while self.next()?.is_some() {
                    count += 1;
                }
                Ok(count)
            }
            (false, _) => self.count_dates(),
        }
    }

    fn count_values(&mut self) -> Result<u64> {
        let mut count = 0;
        for mut source in std::mem::take(&mut self.sources) {
            while source.has_row()? {
                count += u64::from(self.is_first(source.value()?));
                source.advance();
            }
        }
        Ok(count)
    }

    fn count_dates(&mut self) -> Result<u64> {
        let mut count = 0;
        for source in &mut self.sources {
            while let Some(seen_at) = source.date()? {
                if !self.window.reaches(seen_at) {
                    break;
                }
                count += u64::from(!self.window.is_past(seen_at));
                source.advance();
            }
        }
        Ok(count)
    }

    /// The first row in the order of answers, hidden or not.
    pub(crate) fn next_row(&mut self) -> Result<Option<(SeenAt, Packed<'s>)>> {
        let mut best: Option<(usize, SeenAt, Packed<'s>)> = None;
        for (at, source) in self.sources.iter_mut().enumerate() {
            let Some(seen_at) = source.date()? else { continue };
            let value = match best {
                Some((_, newest, _)) if newest > seen_at => continue,
                _ => source.value()?,
            };
            let first = best.is_none_or(|(_, newest, first)| {
                seen_at > newest || value.cmp_text(&first).is_lt()
            });
            if first {
                best = Some((at, seen_at, value));
            }
        }
        let Some((at, seen_at, value)) = best else { return Ok(None) };
        if let Some(source) = self.sources.get_mut(at) {
            source.advance();
        }
        Ok(Some((seen_at, value)))
    }
}
