//! Counts hits, and reads as little as the query allows.

use super::context::MatchContext;
use super::hit::Hit;
use super::population::PopulationPartition;
use crate::lookup::{BlockCache, MergeIterator, RowCursor};
use idmatch_model::Keep;
use idmatch_store::{MatchCounts, Result, RowStates};

/// Adds the hits of some entries, ordered by entry, to the counts; marks the rows that have answers.
pub(super) fn count<'s>(
    context: MatchContext<'s>,
    (population, states): (&PopulationPartition, Option<&RowStates>),
    hits: &[Hit],
    cache: &mut BlockCache<'s>,
    counts: &mut MatchCounts,
) -> Result<()> {
    for hits in hits.chunk_by(|a, b| a.entry == b.entry) {
        let answers = answers(context, population, hits, cache)?;
        counts.matched += u64::from(answers > 0);
        counts.rows += answers.min(context.query.pick.most() as u64);
        if let (Some(states), true, [hit, ..]) = (states, answers > 0, hits)
            && let Some(row) = population.entry_row(hit.entry)
        {
            states.set_matched(row);
        }
    }
    Ok(())
}

fn answers<'s>(
    context: MatchContext<'s>,
    population: &PopulationPartition,
    hits: &[Hit],
    cache: &mut BlockCache<'s>,
) -> Result<u64> {
    if let [hit] = hits
        && context.query.window.is_all()
        && (context.keep() == Keep::Last || hit.rows().len() == 1)
        && context.segments.get(hit.segment as usize).is_some_and(|s| !s.has_hidden())
    {
        return Ok(hit.rows().len() as u64);
    }
    merge(context, population, hits, cache)?.count()
}

/// The answers of one entry.
pub(super) fn merge<'s>(
    context: MatchContext<'s>,
    population: &PopulationPartition,
    hits: &[Hit],
    cache: &mut BlockCache<'s>,
) -> Result<MergeIterator<'s>> {
    let sources = hits
        .iter()
        .map(|hit| rows(context, population, hit, cache).cloned())
        .collect::<Result<Vec<_>>>()?;
    Ok(MergeIterator::new(sources, context.keep(), context.query.window))
}

/// The rows of a hit that are not erased.
pub(super) fn rows<'c, 's>(
    context: MatchContext<'s>,
    population: &PopulationPartition,
    hit: &Hit,
    cache: &'c mut BlockCache<'s>,
) -> Result<&'c mut RowCursor<'s>> {
    let segment = context.segments.get(hit.segment as usize).filter(|s| s.has_hidden());
    let key = segment.and_then(|segment| Some((segment, population.entry_key(hit.entry)?)));
    let erased =
        key.and_then(|(segment, key)| context.table.tombstones_in(segment, context.query.by, key));
    cache.rows(hit.segment, hit.block, hit.rows(), erased)
}
