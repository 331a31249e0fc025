//! The join of the population, counted, from its Parquet file to the number.

use crate::Failure;
use crate::latency::median;
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
const QUERY: MatchQuery = MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL };

/// Runs of the join, one after another.
pub struct Joins {
    pub seconds: Vec<f64>,
    pub counts: MatchCounts,
}

impl Joins {
    pub fn median(&self) -> f64 {
        median(&self.seconds)
    }

    pub fn json(&self) -> Value {
        json!({
            "seconds": self.seconds, "median": self.median(),
            "min": self.seconds.iter().copied().reduce(f64::min),
            "max": self.seconds.iter().copied().reduce(f64::max),
            "population": self.counts.population, "matched": self.counts.matched,
            "rows": self.counts.rows,
        })
    }
}

/// One run to warm up, then five.
pub fn hot(table: &dyn Table, population: &Path) -> std::result::Result<Joins, Failure> {
    join(table, population)?;
    for_seconds(table, population, 0.0)
}

/// As many runs as fit into the time, at least five.
pub fn for_seconds(
    table: &dyn Table,
    population: &Path,
    seconds: f64,
) -> std::result::Result<Joins, Failure> {
    let start = Instant::now();
    let mut joins = Joins { seconds: Vec::new(), counts: MatchCounts::default() };
    while joins.seconds.len() < RUNS || start.elapsed().as_secs_f64() < seconds {
        let began = Instant::now();
        joins.counts = join(table, population)?;
        joins.seconds.push(began.elapsed().as_secs_f64());
    }
    Ok(joins)
}

fn join(table: &dyn Table, population: &Path) -> std::result::Result<MatchCounts, Failure> {
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
