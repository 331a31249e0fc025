//! Counts hits, reading as little as the question allows.

use super::Question;
use super::probe::Hit;
use crate::lookup::{BlockCache, Merge};
use idmatch_model::{Keep, Pick};
use idmatch_store::{MatchCounts, Result};

/// Adds the hits of some entries, ordered by entry, to the counts.
pub(super) fn count<'s>(
    question: Question<'s>,
    hits: &[Hit],
    cache: &mut BlockCache<'s>,
    counts: &mut MatchCounts,
) -> Result<()> {
    for hits in hits.chunk_by(|a, b| a.entry == b.entry) {
        let answers = answers(question, hits, cache)?;
        counts.matched += u64::from(answers > 0);
        counts.rows += match question.query.pick {
            Pick::All => answers,
            Pick::Latest => answers.min(1),
        };
    }
    Ok(())
}

fn answers<'s>(question: Question<'s>, hits: &[Hit], cache: &mut BlockCache<'s>) -> Result<u64> {
    if let [hit] = hits
        && question.query.window.is_all()
        && (question.keep == Keep::Last || hit.rows().len() == 1)
    {
        return Ok(hit.rows().len() as u64);
    }
    merge(question, hits, cache)?.count()
}

/// The answers of one entry.
pub(super) fn merge<'s>(
    question: Question<'s>,
    hits: &[Hit],
    cache: &mut BlockCache<'s>,
) -> Result<Merge<'s>> {
    let sources = hits
        .iter()
        .map(|hit| cache.rows(hit.segment, hit.block, hit.rows()).cloned())
        .collect::<Result<Vec<_>>>()?;
    Ok(Merge::new(sources, question.keep, question.query.window))
}
