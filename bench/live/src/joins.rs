//! The join of the population, counted, from its Parquet file to the number.

use crate::latency::median;
use crate::{Failure, clock};
use idmatch_model::{Pick, Side, Window};
use idmatch_store::{
    BatchSource, Error, ErrorKind, MatchCounts, MatchQuery, Result, SourceBatch, Table,
};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use std::time::Instant;

const RUNS: usize = 5;
const ROUNDS: usize = 9;
const QUERY: MatchQuery =
    MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: false };

/// Runs of the join, one after another.
pub(crate) struct Joins {
    seconds: Vec<f64>,
    /// Processor time of the whole process, which tells little of what others do meanwhile.
    processor: Vec<f64>,
    counts: MatchCounts,
}

impl Joins {
    fn new() -> Joins {
        let (seconds, processor) = (Vec::new(), Vec::new());
        Joins { seconds, processor, counts: MatchCounts::default() }
    }

    fn run(&mut self, table: &Table, population: &Path) -> std::result::Result<(), Failure> {
        let (began, used) = (Instant::now(), clock::processor_time());
        self.counts = join(table, population)?;
        self.seconds.push(began.elapsed().as_secs_f64());
        self.processor.push((clock::processor_time() - used).as_secs_f64());
        Ok(())
    }

    pub(crate) fn median(&self) -> f64 {
        median(&self.seconds)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "seconds": self.seconds, "median": self.median(),
            "min": self.seconds.iter().copied().reduce(f64::min),
            "max": self.seconds.iter().copied().reduce(f64::max),
            "processor_median": median(&self.processor),
            "population": self.counts.population, "matched": self.counts.matched,
            "rows": self.counts.rows,
        })
    }
}

/// One run to warm up, then five.
pub(crate) fn hot(table: &Table, population: &Path) -> std::result::Result<Joins, Failure> {
    join(table, population)?;
    for_seconds(table, population, 0.0)
}

/// As many runs as fit into the time, at least five.
pub(crate) fn for_seconds(
    table: &Table,
    population: &Path,
    seconds: f64,
) -> std::result::Result<Joins, Failure> {
    let start = Instant::now();
    let mut joins = Joins::new();
    while joins.seconds.len() < RUNS || start.elapsed().as_secs_f64() < seconds {
        joins.run(table, population)?;
    }
    Ok(joins)
}

/// Joins of two tables in alternation, so that other work on the machine slows both.
pub(crate) fn in_alternation(
    tables: [&Table; 2],
    population: &Path,
) -> std::result::Result<[Joins; 2], Failure> {
    let mut joins = [Joins::new(), Joins::new()];
    for table in tables {
        join(table, population)?;
    }
    for _ in 0..ROUNDS {
        for (joins, table) in joins.iter_mut().zip(tables) {
            joins.run(table, population)?;
        }
    }
    Ok(joins)
}

fn join(table: &Table, population: &Path) -> std::result::Result<MatchCounts, Failure> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(population)?)?;
    let mut source = Population(reader.with_batch_size(1 << 16).build()?);
    Ok(table.match_population(&mut source, QUERY)?.counts())
}

struct Population(ParquetRecordBatchReader);

impl BatchSource for Population {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let batch =
            self.0.next().transpose().map_err(|e| {
                Error::with_source(ErrorKind::Source, "cannot read the population", e)
            })?;
        Ok(batch.map(|batch| SourceBatch { source: "population".into(), first_row: 1, batch }))
    }
}
