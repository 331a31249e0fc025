//! The steps of a match, partition by partition.

use super::context::MatchContext;
use super::hit::Hit;
use super::output::{self, BatchBuilder};
use super::population::{NumberedSource, Population, PopulationPartition};
use super::probe::probe;
use super::spill::SpilledPartitions;
use crate::cpu;
use crate::disk::Disk;
use crate::hash_partition::HashPartition;
use crate::memtable::Commit;
use crate::segment::Segment;
use crate::sync::Mutex;
use crate::versions::TableVersion;
use idmatch_store::{
    BatchSource, Call, JudgedPopulation, Match, MatchCounts, MatchQuery, MatchSink, PlanStep,
    Result, RowStates, Stage, Timings, UnmatchedReason, not_positional,
};
use std::sync::{Arc, OnceLock};

/// Below this many rows, starting a second thread takes longer than it saves.
const SINGLE_THREAD_ROWS: u64 = 512;

/// Up to this many keys are looked up in the memtables one by one; for more, all their rows are sorted.
const POINT_LOOKUP_KEYS: u64 = 50_000;

/// The number of threads for a step over this many rows.
fn threads_for(rows: u64) -> usize {
    if rows < SINGLE_THREAD_ROWS { 1 } else { cpu::count() }
}

/// A matched population: the query and its hits.
pub(crate) struct EngineMatch {
    table: Arc<TableVersion>,
    query: MatchQuery,
    counts: MatchCounts,
    batches: Vec<PopulationBatch>,
    /// The states of the rows of each batch, if the match is positional: two bits a row.
    states: Vec<RowStates>,
    /// The last commit that the match sees.
    last_commit: Commit,
    timings: Arc<Timings>,
    /// For each partition of a table with memtables: all segments that the partition is matched with.
    sources: Vec<OnceLock<Vec<Arc<Segment>>>>,
}

/// As much of a population as fits into memory, with its hits.
enum PopulationBatch {
    Memory(Population, Vec<Vec<Hit>>),
    Spilled(SpilledPartitions),
}

impl EngineMatch {
    /// Reads the population, finds its matches and counts them. Cost: one pass over the population, and for
    /// each batch one pass over the block headers and keys that it touches. Memory: `population_bytes`; for a
    /// positional match also two bits for each row of the population, until the match is dropped.
    pub(crate) fn run(
        disk: &dyn Disk,
        population_bytes: usize,
        (table, last_commit): (Arc<TableVersion>, Commit),
        source: &mut dyn BatchSource,
        query: MatchQuery,
        call: &Call,
    ) -> Result<EngineMatch> {
        let sources = (0..HashPartition::COUNT).map(|_| OnceLock::new()).collect();
        let (counts, batches, states) = (MatchCounts::default(), Vec::new(), Vec::new());
        let timings = call.timings();
        let mut matched =
            EngineMatch { table, query, counts, batches, states, last_commit, timings, sources };
        let mut source = JudgedPopulation::new(source, query);
        let mut source = NumberedSource::new(&mut source, query, call);
        loop {
            let mut population =
                Population::read(&mut source, population_bytes, matched.table.row_rules.seed)?;
            let is_last = population.is_last;
            let (hits, counts) = matched.probe_all(&population, call)?;
            matched.counts += counts;
            matched.states.extend(population.states.take());
            let only_one = is_last && matched.batches.is_empty();
            matched.batches.push(if only_one {
                PopulationBatch::Memory(population, hits)
            } else {
                let hits = hits.iter().map(Vec::as_slice);
                let partitions =
                    HashPartition::all().map(|partition| population.partition(partition)).zip(hits);
                PopulationBatch::Spilled(SpilledPartitions::write(
                    disk,
                    partitions,
                    query.positions,
                )?)
            });
            if is_last {
                return Ok(matched);
            }
        }
    }

    fn context(&self, partition: HashPartition) -> MatchContext<'_> {
        let made = self.sources.get(usize::from(partition.0)).and_then(OnceLock::get);
        let segments = match made {
            Some(sources) => sources.as_slice(),
            None => self.table.segments_of(self.query.by, partition),
        };
        MatchContext { segments, table: &self.table, query: self.query }
    }

    /// Makes segments of the memtable rows that a partition is matched with. For a small population it takes
    /// only the rows of its keys.
    fn prepare_sources(
        &self,
        partition: HashPartition,
        population: &PopulationPartition,
        few: bool,
    ) -> Result<()> {
        let Some(sources) = self.sources.get(usize::from(partition.0)) else { return Ok(()) };
        if self.table.memtables().is_empty() || sources.get().is_some() {
            return Ok(());
        }
        let by = self.query.by;
        let made = if few {
            let hashes = population.entries().iter().map(|entry| entry.hash);
            self.table.sources_of(by, partition, hashes, self.last_commit)?
        } else {
            self.table.sources_in(by, partition, self.last_commit)?
        };
        sources.get_or_init(|| made);
        Ok(())
    }

    /// The hits of every partition, each ordered by entry.
    fn probe_all(
        &self,
        population: &Population,
        call: &Call,
    ) -> Result<(Vec<Vec<Hit>>, MatchCounts)> {
        let few =
            population.is_last && self.batches.is_empty() && population.rows < POINT_LOOKUP_KEYS;
        let states = population.states.as_ref();
        let counts = Mutex::new(MatchCounts { population: population.rows, ..Default::default() });
        let found: Vec<(HashPartition, Mutex<Vec<Hit>>)> =
            HashPartition::all().map(|partition| (partition, Mutex::default())).collect();
        cpu::for_each_with(
            threads_for(population.rows),
            &found,
            || Ok(self.timings.span(Stage::Probing)),
            |_, (partition, found)| {
                call.check()?;
                let partition_population = population.partition(*partition);
                if !partition_population.is_empty() {
                    self.prepare_sources(*partition, partition_population, few)?;
                    let (hits, partition_counts) =
                        probe(self.context(*partition), *partition, partition_population, states)?;
                    *counts.lock() += partition_counts;
                    *found.lock() = hits;
                }
                Ok(())
            },
            |_| Ok(()),
        )?;
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
        let segments: usize =
            HashPartition::all().map(|partition| self.context(partition).segments.len()).sum();
        vec![PlanStep {
            how: "sorted probe",
            requests: segments as u64 * self.batches.len() as u64,
            keys: self.counts.population,
            why: format!(
                "ordered by hash, {} ranges of a population meet segments as a merge; batches: {}",
                HashPartition::COUNT,
                self.batches.len()
            ),
        }]
    }

    fn write(&self, sink: &dyn MatchSink) -> Result<()> {
        let threads = threads_for(self.counts.rows);
        let sink = &self.timings.sink(sink);
        let partitions: Vec<HashPartition> = HashPartition::all().collect();
        for population in &self.batches {
            cpu::for_each_with(
                threads,
                &partitions,
                || {
                    let span = self.timings.span(Stage::Decoding);
                    Ok((span, BatchBuilder::of_query(&self.query, sink.lane()?)))
                },
                |(_, batch), partition| self.write_partition(population, *partition, batch),
                |(_span, batch)| batch.finish(),
            )?;
        }
        Ok(())
    }

    fn unmatched(&self, take: &mut dyn FnMut(u32, UnmatchedReason) -> Result<()>) -> Result<()> {
        if !self.query.positions {
            return Err(not_positional());
        }
        self.states.iter().try_for_each(|states| states.unmatched(take))
    }
}

impl EngineMatch {
    fn write_partition(
        &self,
        population: &PopulationBatch,
        partition: HashPartition,
        batch: &mut BatchBuilder<'_>,
    ) -> Result<()> {
        let context = self.context(partition);
        match population {
            PopulationBatch::Memory(population, hits) => {
                let hits = hits.get(usize::from(partition.0)).map_or(&[][..], Vec::as_slice);
                output::write(context, partition, population.partition(partition), hits, batch)
            }
            PopulationBatch::Spilled(partitions) => {
                let (population, hits) = partitions.read(partition)?;
                output::write(context, partition, &population, &hits, batch)
            }
        }
    }
}
