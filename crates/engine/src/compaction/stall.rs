//! Merges that fall behind: how far, and what those do about it who add more segments.
//!
//! Without a bound a lookup would get slower for as long as rows come faster than they are merged.
//! Upserts are slowed down, the more the further merges are behind, so that they go on evenly; only where
//! that does not help they wait. Loads merge some of it themselves.

use super::compacting::sized;
use super::shared::Shared;
use super::view::TableView;
use crate::compact::{Effort, Sized, choose};
use crate::workers::try_lock;
use idmatch_model::{Side, TableName};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// From so many segments of one range on, there are too many. While a large merge runs, the
/// memtables of half a minute come; half as many segments here made upserts slow and fast by turns.
const CROWDED: usize = 64;

/// With so many, upserts wait.
const FULL: usize = 256;

/// Upserts are slowed down by so many nanoseconds for every byte and for every segment too many: with 20
/// of them to 200 MB/s.
const SLOWER_BY: f64 = 0.25;

/// Shorter delays are put together, because no sleep is so short.
const SHORTEST: Duration = Duration::from_millis(1);

/// How often it is asked whether merges are done.
const PAUSE: Duration = Duration::from_millis(10);

impl Shared {
    /// Notes how many segments there are too many. Whenever segments are added or merged.
    pub(super) fn note_backlog(&self) {
        let fullest = self.view().tables.values().map(|table| self.fullest(table)).max();
        self.backlog.store(fullest.unwrap_or(0).saturating_sub(CROWDED), Relaxed);
    }

    /// Slows an upsert of so many bytes down, as merges are behind. `owed` is what was too short
    /// to sleep for.
    pub(super) fn slow_down(&self, bytes: usize, owed: &mut Duration) {
        let nanos = bytes as f64 * self.backlog.load(Relaxed) as f64 * SLOWER_BY;
        *owed += Duration::from_nanos(nanos as u64);
        if *owed >= SHORTEST {
            std::thread::sleep(std::mem::take(owed));
        }
    }

    /// Waits until no range is full, or there is nothing that could be done about it. Holds no
    /// lock that a merge needs.
    pub(super) fn wait_for_merges(&self) {
        while self.is_in_use()
            && let Some(name) = self.tables_beyond(FULL).first()
        {
            match try_lock(&self.compacting) {
                Some(_compacting) if !self.merge_some(name) => return,
                Some(_compacting) => {}
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Merges where a range is crowded, unless somebody merges already.
    pub(super) fn merge_backlog(&self) {
        let Some(_compacting) = try_lock(&self.compacting) else { return };
        while self.is_in_use()
            && let Some(name) = self.crowded_tables().first()
            && self.merge_some(name)
        {}
    }

    /// The tables with ranges of too many segments.
    pub(super) fn crowded_tables(&self) -> Vec<TableName> {
        self.tables_beyond(CROWDED)
    }

    /// Whether something was merged. What fails here fails again where somebody is told: at the next
    /// full compaction.
    fn merge_some(&self, name: &TableName) -> bool {
        matches!(self.compact_step(name, Effort::Background, |_| true), Ok(Some(_)))
    }

    fn tables_beyond(&self, count: usize) -> Vec<TableName> {
        let view = self.view();
        let beyond = view.tables.iter().filter(|(_, table)| self.fullest(table) > count);
        beyond.map(|(name, _)| name.clone()).collect()
    }

    /// How many segments the range has that has most, among those where merging is worth it.
    fn fullest(&self, table: &TableView) -> usize {
        let of_side = |side| {
            let mut ranges: HashMap<_, Vec<Sized>> = HashMap::new();
            for segment in table.segments(side) {
                let range = (segment.header.prefix_bits, segment.header.prefix);
                let sized = sized(segment, table, Effort::Background, self.limits);
                ranges.entry(range).or_default().push(sized);
            }
            let is_worth_it = |range: &&Vec<Sized>| {
                range.len() > CROWDED
                    && choose(range, Effort::Background, self.limits.segment_rows).is_some()
            };
            ranges.values().filter(is_worth_it).map(Vec::len).max().unwrap_or(0)
        };
        Side::BOTH.into_iter().map(of_side).max().unwrap_or(0)
    }
}
