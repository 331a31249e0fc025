//! The steps of a match, partition by partition.

use super::context::MatchContext;
use super::hit::Hit;
use super::output::{self, BatchBuilder};
use super::population::{Population, PopulationPart};
use super::probe::probe;
use super::spill::SpilledParts;
use crate::cpu;
use crate::disk::Disk;
use crate::hash_partition::Part;
use crate::memtable::Commit;
use crate::segment::Segment;
use crate::sync::Mutex;
use crate::versions::TableVersion;
use idmatch_store::{BatchSource, Match, MatchCounts, MatchQuery, MatchSink, PlanStep, Result};
use std::sync::{Arc, OnceLock};

/// Below this, starting a second thread takes longer than it saves.
const FEW_ROWS: u64 = 512;

/// So few keys are looked for in the memtables one by one; for more, all rows there are sorted.
const FEW_KEYS: u64 = 50_000;

/// How many threads a step with so many rows is worth.
fn threads_for(rows: u64) -> usize {
    if rows < FEW_ROWS { 1 } else { cpu::count() }
}

/// A population that was matched: what was asked, and what was found.
pub(crate) struct EngineMatch {
    table: Arc<TableVersion>,
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

impl EngineMatch {
    /// Reads the population, finds its matches and counts them. Cost: one pass over the
    /// population, and for each tranche one over the heads and keys that it falls on.
    pub(crate) fn run(
        disk: &dyn Disk,
        tranche_bytes: usize,
        (table, last): (Arc<TableVersion>, Commit),
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

    fn context(&self, part: Part) -> MatchContext<'_> {
        let live = self.sources.get(usize::from(part.0)).and_then(OnceLock::get);
        let segments = match live {
            Some(sources) => sources.as_slice(),
            None => self.table.segments_of(self.query.by, part),
        };
        MatchContext { segments, table: &self.table, query: self.query }
    }

    /// Makes what was upserted into segments that a part of a population can be matched with:
    /// all of it, or for a small population what it asks for.
    fn settle(&self, part: Part, population: &PopulationPart, few: bool) -> Result<()> {
        let Some(sources) = self.sources.get(usize::from(part.0)) else { return Ok(()) };
        if self.table.memtables().is_empty() || sources.get().is_some() {
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
        cpu::for_each(threads_for(population.rows), &found, |(part, found)| {
            let population = population.part(*part);
            if !population.is_empty() {
                self.settle(*part, population, few)?;
                let (hits, part_counts) = probe(self.context(*part), *part, population)?;
                *counts.lock() += part_counts;
                *found.lock() = hits;
            }
            Ok(())
        })?;
        let counts = counts.into_inner();
        let hits = found.into_iter().map(|(_, hits)| hits.into_inner()).collect();
        Ok((hits, counts))
    }
}

impl Match for EngineMatch {
    fn counts(&self) -> MatchCounts {
        self.counts
    }

    fn plan(&self) -> Vec<PlanStep> {
        let segments: usize = Part::all().map(|part| self.context(part).segments.len()).sum();
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
            cpu::for_each_with(
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
        let context = self.context(part);
        match tranche {
            Tranche::Memory(population, hits) => {
                let hits = hits.get(usize::from(part.0)).map_or(&[][..], Vec::as_slice);
                output::write(context, part, population.part(part), hits, batch)
            }
            Tranche::Spilled(parts) => {
                let (population, hits) = parts.read(part)?;
                output::write(context, part, &population, &hits, batch)
            }
        }
    }
}
