//! The fate of each population row in a chain: two bytes a row.
//!
//! Must not know the carried columns. Invariant: hops are noted in order.

use crate::carried::{Chunk, Level};
use arrow_array::UInt32Array;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use idmatch_store::{Call, Error, ErrorKind, Match, Result, UnmatchedReason};

/// Most hops of a chain.
pub(crate) const MAX_HOPS: usize = 16;

/// The fate of a population row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It has no identifier: null.
    Null,
    /// It has no identifier: empty, too long or not UTF-8.
    Malformed,
    /// It is in the first table, but with no date in the window.
    OutsideWindow,
    /// The number of the last hop in which it has a match; 0 if it has none.
    Reached(u8),
}

/// The fates of all rows.
pub(crate) struct Fates(Vec<Fate>);

impl Fates {
    /// The fates after the first hop.
    pub(crate) fn of_first(matched: &dyn Match) -> Result<Fates> {
        let rows = usize::try_from(matched.counts().population).unwrap_or(usize::MAX);
        let mut fates = vec![Fate::Reached(1); rows];
        matched.unmatched(&mut |row, reason| {
            if let Some(fate) = fates.get_mut(row as usize) {
                *fate = match reason {
                    UnmatchedReason::Null => Fate::Null,
                    UnmatchedReason::Malformed => Fate::Malformed,
                    UnmatchedReason::NotFound => Fate::Reached(0),
                };
            }
            Ok(())
        })?;
        Ok(Fates(fates))
    }

    /// Notes the rows that have a match in the hop with this number. Column 0 of its level has the number of
    /// each row in the first population.
    pub(crate) fn note_hop(
        &mut self,
        hop: u8,
        matched: &dyn Match,
        level: &Level,
        call: &Call,
    ) -> Result<()> {
        let mut origins = Origins::new(level, call);
        let mut next = 0;
        let mut mark_to = |this: &mut Vec<Fate>, end: u32, skip_end: bool| -> Result<()> {
            while next < end {
                if let Some(row) = origins.next()?
                    && let Some(fate) = this.get_mut(row as usize)
                {
                    *fate = Fate::Reached(hop);
                }
                next += 1;
            }
            if skip_end {
                origins.next()?;
                next += 1;
            }
            Ok(())
        };
        matched.unmatched(&mut |row, _| mark_to(&mut self.0, row, true))?;
        let rows = level.chunks.last().map_or(0, |chunk| chunk.first_row + chunk.rows as u32);
        mark_to(&mut self.0, rows, false)
    }

    /// Marks rows that the first table has only outside of the window. They are among the rows without a
    /// match in it. `all_but` has the numbers, among those rows, of the rows that the table does not have at
    /// all, ascending.
    pub(crate) fn note_outside(&mut self, all_but: &[u32]) {
        let mut absent = all_but.iter().peekable();
        let lost = self.0.iter_mut().filter(|fate| **fate == Fate::Reached(0));
        for (number, fate) in (0..).zip(lost) {
            if absent.next_if_eq(&&number).is_none() {
                *fate = Fate::OutsideWindow;
            }
        }
    }

    /// The fate of a row.
    pub(crate) fn of(&self, row: u32) -> Option<Fate> {
        self.0.get(row as usize).copied()
    }

    /// Counts the rows that have a match in the hop with this number, and in no later hop.
    pub(crate) fn count(&self, hops: u8) -> u64 {
        self.0.iter().filter(|fate| **fate == Fate::Reached(hops)).count() as u64
    }

    /// The rows of a chunk whose last match is not in the hop with this number: their numbers in the chunk,
    /// ascending, and their fates.
    pub(crate) fn lost(&self, chunk: &Chunk, hops: u8) -> Vec<(usize, Fate)> {
        let fates = (chunk.first_row..).map_while(|row| self.of(row)).take(chunk.rows);
        fates.enumerate().filter(|(_, fate)| *fate != Fate::Reached(hops)).collect()
    }
}

/// The first column of a level, row by row.
struct Origins<'a> {
    call: &'a Call,
    batches: Box<dyn Iterator<Item = Result<arrow_array::RecordBatch>> + 'a>,
    current: Option<(UInt32Array, usize)>,
}

impl<'a> Origins<'a> {
    fn new(level: &'a Level, call: &'a Call) -> Origins<'a> {
        let batches = Box::new(level.chunks.iter().flat_map(Chunk::batches));
        Origins { call, batches, current: None }
    }

    fn next(&mut self) -> Result<Option<u32>> {
        loop {
            if let Some((rows, at)) = &mut self.current
                && let Some(row) = rows.values().get(*at)
            {
                *at += 1;
                return Ok(Some(*row));
            }
            self.call.check()?;
            let Some(batch) = self.batches.next().transpose()? else { return Ok(None) };
            let rows = batch.columns().first().and_then(|c| c.as_primitive_opt::<UInt32Type>());
            let damaged =
                || Error::new(ErrorKind::Corrupt, "rows of a chain are damaged; match again");
            self.current = Some((rows.ok_or_else(damaged)?.clone(), 0));
        }
    }
}
