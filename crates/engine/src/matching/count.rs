//! Counts hits, reading as little as the question allows.

use super::Question;
use super::population::PopulationPart;
use super::probe::Hit;
use crate::lookup::{BlockCache, Merge, RowCursor};
use idmatch_model::{Keep, Pick};
use idmatch_store::{MatchCounts, Result};

/// Adds the hits of some entries, ordered by entry, to the counts.
pub(super) fn count<'s>(
    question: Question<'s>,
    population: &PopulationPart,
    hits: &[Hit],
    cache: &mut BlockCache<'s>,
    counts: &mut MatchCounts,
) -> Result<()> {
    for hits in hits.chunk_by(|a, b| a.entry == b.entry) {
        let answers = answers(question, population, hits, cache)?;
        counts.matched += u64::from(answers > 0);
        counts.rows += match question.query.pick {
            Pick::All => answers,
            Pick::Latest => answers.min(1),
        };
    }
    Ok(())
}

fn answers<'s>(
    question: Question<'s>,
    population: &PopulationPart,
    hits: &[Hit],
    cache: &mut BlockCache<'s>,
) -> Result<u64> {
    if let [hit] = hits
        && question.query.window.is_all()
        && (question.keep() == Keep::Last || hit.rows().len() == 1)
        && question.segments.get(hit.segment as usize).is_some_and(|s| !s.has_hidden())
    {
        return Ok(hit.rows().len() as u64);
    }
    merge(question, population, hits, cache)?.count()
}

/// The answers of one entry.
pub(super) fn merge<'s>(
    question: Question<'s>,
    population: &PopulationPart,
    hits: &[Hit],
    cache: &mut BlockCache<'s>,
) -> Result<Merge<'s>> {
    let sources = hits
        .iter()
        .map(|hit| rows(question, population, hit, cache).cloned())
        .collect::<Result<Vec<_>>>()?;
    Ok(Merge::new(sources, question.keep(), question.query.window))
}

/// The rows of a hit, without those that were erased.
pub(super) fn rows<'c, 's>(
    question: Question<'s>,
    population: &PopulationPart,
    hit: &Hit,
    cache: &'c mut BlockCache<'s>,
) -> Result<&'c mut RowCursor<'s>> {
    let segment = question.segments.get(hit.segment as usize).filter(|s| s.has_hidden());
    let key = segment.and_then(|segment| Some((segment, population.entry_key(hit.entry)?)));
    let erased =
        key.and_then(|(segment, key)| question.table.erased_in(segment, question.query.by, key));
    cache.rows(hit.segment, hit.block, hit.rows(), erased)
}
