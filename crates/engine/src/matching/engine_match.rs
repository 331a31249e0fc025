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
//! A population larger than memory should hold goes through these steps in tranches, whose hits
//! wait in temporary files ([`spill`]). Must not know where the population comes from or where the batches go.

mod count;
mod output;
mod population;
mod probe;
mod spill;

use crate::disk::Disk;
use crate::memtable::Commit;
use crate::part::Part;
use crate::segment::Segment;
use crate::store::TableView;
use crate::workers::{self, lock};
use idmatch_model::Keep;
use idmatch_store::{BatchSource, Match, MatchCounts, MatchQuery, MatchSink, PlanStep, Result};
pub(crate) use output::BatchBuilder;
use population::{Population, PopulationPart};
use probe::Hit;
use spill::SpilledParts;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Below this, starting a second thread takes longer than it saves.
const FEW_ROWS: u64 = 512;

/// So few keys are looked for in the memtables one by one; for more, all rows there are sorted.
const FEW_KEYS: u64 = 50_000;

/// How many threads a step with so many rows is worth.
fn threads_for(rows: u64) -> usize {
    if rows < FEW_ROWS { 1 } else { workers::count() }
}

/// A population that was matched: what was asked, and what was found.
pub(crate) struct EngineMatch {
    table: Arc<TableView>,
    query: MatchQuery,
    counts: MatchCounts,
    tranches: Vec<Tranche>,
    /// The last commit that is seen.
    last: Commit,
    /// For each part, where something was upserted: all segments it is matched with.
    sources: Vec<OnceLock<Vec<Arc<Segment>>>>,
}

/// A part of a population as large as memory should hold, with its hits.
enum Tranche {
    Memory(Population, Vec<Vec<Hit>>),
    Spilled(SpilledParts),
}

/// What every step needs to know of question and table: the segments are those that the part
/// in hand falls on.
#[derive(Clone, Copy)]
struct Question<'a> {
    segments: &'a [Arc<Segment>],
    table: &'a TableView,
    query: MatchQuery,
}

impl Question<'_> {
    fn keep(&self) -> Keep {
        self.table.rules.keep
    }
}

impl EngineMatch {
    /// Reads the population, finds its matches and counts them. Cost: one pass over the
    /// population, and for each tranche one over the heads and keys that it falls on.
    pub(crate) fn run(
        disk: &dyn Disk,
        tranche_bytes: usize,
        (table, last): (Arc<TableView>, Commit),
        source: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<EngineMatch> {
        let sources = (0..Part::COUNT).map(|_| OnceLock::new()).collect();
        let (counts, tranches) = (MatchCounts::default(), Vec::new());
        let mut matched = EngineMatch { table, query, counts, tranches, last, sources };
        loop {
            let population = Population::read(source, tranche_bytes)?;
            let is_last = population.is_last;
            let (hits, counts) = matched.probe_all(&population)?;
            matched.counts += counts;
            let only_one = is_last && matched.tranches.is_empty();
            matched.tranches.push(if only_one {
                Tranche::Memory(population, hits)
            } else {
                let hits = hits.iter().map(Vec::as_slice);
                let parts = Part::all().map(|part| population.part(part)).zip(hits);
                Tranche::Spilled(SpilledParts::write(disk, parts)?)
            });
            if is_last {
                return Ok(matched);
            }
        }
    }

    fn question(&self, part: Part) -> Question<'_> {
        let live = self.sources.get(usize::from(part.0)).and_then(OnceLock::get);
        let segments = match live {
            Some(sources) => sources.as_slice(),
            None => self.table.segments_of(self.query.by, part),
        };
        Question { segments, table: &self.table, query: self.query }
    }

    /// Makes what was upserted into segments that a part of a population can be matched with:
    /// all of it, or for a small population what it asks for.
    fn settle(&self, part: Part, population: &PopulationPart, few: bool) -> Result<()> {
        let Some(sources) = self.sources.get(usize::from(part.0)) else { return Ok(()) };
        if self.table.live().is_empty() || sources.get().is_some() {
            return Ok(());
        }
        let by = self.query.by;
        let made = if few {
            self.table.sources_of(by, part, population.keys(), self.last)?
        } else {
            self.table.sources_in(by, part, self.last)?
        };
        sources.get_or_init(|| made);
        Ok(())
    }

    /// The hits of every part, each ordered by entry.
    fn probe_all(&self, population: &Population) -> Result<(Vec<Vec<Hit>>, MatchCounts)> {
        let few = population.is_last && self.tranches.is_empty() && population.rows < FEW_KEYS;
        let counts = Mutex::new(MatchCounts { population: population.rows, ..Default::default() });
        let found: Vec<(Part, Mutex<Vec<Hit>>)> =
            Part::all().map(|part| (part, Mutex::default())).collect();
        workers::for_each(threads_for(population.rows), &found, |(part, found)| {
            let population = population.part(*part);
            if !population.is_empty() {
                self.settle(*part, population, few)?;
                let (hits, part_counts) = probe::probe(self.question(*part), *part, population)?;
                *lock(&counts) += part_counts;
                *lock(found) = hits;
            }
            Ok(())
        })?;
        let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
        let hits = found
            .into_iter()
            .map(|(_, hits)| hits.into_inner().unwrap_or_else(PoisonError::into_inner))
            .collect();
        Ok((hits, counts))
    }
}

impl Match for EngineMatch {
    fn counts(&self) -> MatchCounts {
        self.counts
    }

    fn plan(&self) -> Vec<PlanStep> {
        let segments: usize = Part::all().map(|part| self.question(part).segments.len()).sum();
        vec![PlanStep {
            how: "sorted probe",
            requests: segments as u64 * self.tranches.len() as u64,
            keys: self.counts.population,
            why: format!(
                "ordered by hash, {} ranges of a population meet segments as a merge; tranches: {}",
                Part::COUNT,
                self.tranches.len()
            ),
        }]
    }

    fn write(&self, sink: &dyn MatchSink) -> Result<()> {
        let threads = threads_for(self.counts.rows);
        let parts: Vec<Part> = Part::all().collect();
        for tranche in &self.tranches {
            workers::for_each_with(
                threads,
                &parts,
                || Ok(BatchBuilder::new(self.query.by, sink.lane()?)),
                |batch, part| self.write_part(tranche, *part, batch),
                BatchBuilder::finish,
            )?;
        }
        Ok(())
    }
}

impl EngineMatch {
    fn write_part(
        &self,
        tranche: &Tranche,
        part: Part,
        batch: &mut BatchBuilder<'_>,
    ) -> Result<()> {
        let question = self.question(part);
        match tranche {
            Tranche::Memory(population, hits) => {
                let hits = hits.get(usize::from(part.0)).map_or(&[][..], Vec::as_slice);
                output::write(question, part, population.part(part), hits, batch)
            }
            Tranche::Spilled(parts) => {
                let (population, hits) = parts.read(part)?;
                output::write(question, part, &population, &hits, batch)
            }
        }
    }
}
