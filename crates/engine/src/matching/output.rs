//! Turns hits into Arrow batches.

use super::context::MatchContext;
use super::count::{merge, rows};
use super::hit::Hit;
use super::population::PopulationPartition;
use super::probe::prefetch_blocks;
use crate::encoding::Packed;
use crate::hash_partition::HashPartition;
use crate::lookup::BlockCache;
use crate::segment::Region;
use idmatch_model::{Keep, SeenAt, Side};
use idmatch_store::{Columns, MatchLane, MatchQuery, Result, RowBatch};

/// A batch is sent when it has this many rows, or bytes of identifiers.
const BATCH_ROWS: usize = 64 << 10;
const BATCH_BYTES: usize = 16 << 20;
/// Hits whose pages are prefetched together.
const CHUNK: usize = 8;

/// Adds the matches of a partition to a batch, which is sent whenever it is full.
pub(super) fn write(
    context: MatchContext<'_>,
    partition: HashPartition,
    population: &PopulationPartition,
    hits: &[Hit],
    batch: &mut BatchBuilder<'_>,
) -> Result<()> {
    if hits.is_empty() {
        return Ok(());
    }
    for segment in context.segments {
        prefetch_blocks(
            segment,
            partition,
            hits.len(),
            &[Region::BlockHeaders, Region::Values, Region::Dates],
        )?;
    }
    let mut cache = BlockCache::new(context.segments);
    let (mut rest, mut fetched) = (hits, 0);
    for hits in hits.chunk_by(|a, b| a.entry == b.entry) {
        if fetched == 0 {
            fetched = fetch(context, rest);
        }
        rest = rest.get(hits.len()..).unwrap_or_default();
        fetched = fetched.saturating_sub(hits.len());
        let Some(key) = hits.first().and_then(|hit| population.entry_key(hit.entry)) else {
            continue;
        };
        let first = hits.first().filter(|_| context.query.positions);
        let row = first.and_then(|hit| population.entry_row(hit.entry));
        let mut take = context.query.pick.most();
        if let ([hit], Keep::Last) = (hits, context.keep()) {
            // One source and no repeats: the rows are the answers.
            let rows = rows(context, population, hit, &mut cache)?;
            while take > 0
                && let Some(seen_at) = rows.date()?
            {
                if !context.query.window.reaches(seen_at) {
                    break;
                }
                if !context.query.window.is_past(seen_at) {
                    batch.push_match(row, key, rows.value()?, seen_at)?;
                    take -= 1;
                }
                rows.advance();
            }
            continue;
        }
        let mut answers = merge(context, population, hits, &mut cache)?;
        while take > 0
            && let Some((seen_at, value)) = answers.next()?
        {
            batch.push_match(row, key, value, seen_at)?;
            take -= 1;
        }
    }
    context.segments.iter().for_each(|segment| segment.give_back(partition));
    Ok(())
}

/// Prefetches the pages of the next hits, so that a thread waits for memory once and not at every page.
/// Returns the number of these hits.
fn fetch(context: MatchContext<'_>, hits: &[Hit]) -> usize {
    let chunk = hits.get(..CHUNK).unwrap_or(hits);
    let blocks = || {
        let same = |a: &Hit, b: &Hit| (a.segment, a.block) == (b.segment, b.block);
        let firsts = chunk.chunk_by(same).filter_map(<[Hit]>::first);
        firsts.filter_map(|hit| Some((context.segments.get(hit.segment as usize)?, hit)))
    };
    blocks().for_each(|(segment, hit)| segment.prefetch_block_header(hit.block));
    blocks().for_each(|(segment, hit)| segment.prefetch_row(hit.block, hit.rows().start));
    chunk.len()
}

/// Rows on their way to one lane, in batches that are sent when they are full.
pub(crate) struct BatchBuilder<'s> {
    lane: Box<dyn MatchLane + 's>,
    rows: RowBatch,
}

impl<'s> BatchBuilder<'s> {
    /// For some columns of observations by id.
    pub(crate) fn of_columns(columns: Columns, lane: Box<dyn MatchLane + 's>) -> BatchBuilder<'s> {
        let rows = RowBatch::with_limits((Side::Id, columns), BATCH_ROWS, BATCH_BYTES);
        BatchBuilder { lane, rows }
    }

    /// For the rows of a query.
    pub(super) fn of_query(query: &MatchQuery, lane: Box<dyn MatchLane + 's>) -> BatchBuilder<'s> {
        BatchBuilder { lane, rows: RowBatch::of_query(query, BATCH_ROWS, BATCH_BYTES) }
    }

    /// Adds a match: with the number of its population row, or with its key.
    #[inline]
    fn push_match(
        &mut self,
        row: Option<u32>,
        key: Packed<'_>,
        value: Packed<'_>,
        seen_at: SeenAt,
    ) -> Result<()> {
        let Some(row) = row else { return self.push(key, value, seen_at) };
        let value = |text: &mut Vec<u8>| value.unpack_into(text);
        if self.rows.push_position(row, value, seen_at) { self.send() } else { Ok(()) }
    }

    /// Adds a row.
    #[inline]
    pub(crate) fn push(
        &mut self,
        key: Packed<'_>,
        value: Packed<'_>,
        seen_at: SeenAt,
    ) -> Result<()> {
        let key = |text: &mut Vec<u8>| key.unpack_into(text);
        let value = |text: &mut Vec<u8>| value.unpack_into(text);
        if self.rows.push_with(key, value, seen_at) { self.send() } else { Ok(()) }
    }

    /// Sends the last batch.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.send()?;
        self.lane.finish()
    }

    fn send(&mut self) -> Result<()> {
        match self.rows.take()? {
            Some(batch) => self.lane.push(batch),
            None => Ok(()),
        }
    }
}
