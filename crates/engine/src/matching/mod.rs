//! Joins a population with a table.
//!
//! 1. [`population`]: the identifiers are packed, hashed, divided into the 256 parts of the
//!    hash space, and each part is sorted by hash: the order of the segments.
//! 2. [`probe`]: part by part, every segment is met in that order, which makes the join a
//!    merge: sequential reads, no search from the top. What is found is a [`probe::Hit`].
//! 3. [`count`]: hits are counted; only where a key has rows in several segments, or a window
//!    is asked for, are dates and values read.
//! 4. [`output`]: hits become Arrow batches, when and as often as the caller wants them.
//!
//! Must not know where the population comes from or where the batches go.

mod count;
mod output;
mod population;
mod probe;

use crate::part::Part;
use crate::segment::Segment;
use crate::store::TableView;
use crate::workers;
use idmatch_model::Keep;
use idmatch_store::{BatchSource, Match, MatchCounts, MatchQuery, MatchSink, Result};
use population::Population;
use probe::Hit;
use std::sync::{Arc, Mutex, PoisonError};

/// A population that was matched: what was asked, and what was found.
pub(crate) struct EngineMatch {
    table: Arc<TableView>,
    query: MatchQuery,
    counts: MatchCounts,
    population: Population,
    /// Hits of each part, ordered by entry.
    hits: Vec<Vec<Hit>>,
}

/// What every step needs to know of table and question.
#[derive(Clone, Copy)]
struct Question<'a> {
    segments: &'a [Arc<Segment>],
    keep: Keep,
    query: MatchQuery,
}

impl EngineMatch {
    /// Reads the population, finds its matches and counts them. Cost: one pass over the
    /// population, and one over the heads and keys of the segments that it falls on.
    pub(crate) fn run(
        table: Arc<TableView>,
        source: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<EngineMatch> {
        let population = Population::read(source)?;
        let question = question(&table, query);
        let found: Mutex<Vec<(usize, Vec<Hit>)>> = Mutex::new(Vec::new());
        let counts = Mutex::new(MatchCounts { population: population.rows, ..Default::default() });
        let parts: Vec<Part> = Part::all().filter(|part| !population.part(*part).is_empty()).collect();
        workers::for_each(&parts, |part| {
            let (hits, part_counts) = probe::probe(question, *part, population.part(*part))?;
            *lock(&counts) += part_counts;
            lock(&found).push((usize::from(part.0), hits));
            Ok(())
        })?;
        let mut hits: Vec<Vec<Hit>> = (0..Part::COUNT).map(|_| Vec::new()).collect();
        for (at, found) in found.into_inner().unwrap_or_else(PoisonError::into_inner) {
            if let Some(slot) = hits.get_mut(at) {
                *slot = found;
            }
        }
        let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(EngineMatch { table, query, counts, population, hits })
    }
}

fn question(table: &TableView, query: MatchQuery) -> Question<'_> {
    Question { segments: table.segments(query.by), keep: table.options.keep, query }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Match for EngineMatch {
    fn counts(&self) -> MatchCounts {
        self.counts
    }

    fn write(&self, sink: &mut dyn MatchSink) -> Result<()> {
        let sink = Mutex::new(sink);
        let parts: Vec<(Part, &Vec<Hit>)> =
            Part::all().zip(&self.hits).filter(|(_, hits)| !hits.is_empty()).collect();
        let question = question(&self.table, self.query);
        workers::for_each(&parts, |(part, hits)| {
            output::write(question, self.population.part(*part), hits, &|batch| {
                lock(&sink).push(batch)
            })
        })
    }
}
