//! Times a match that is written to Parquet, with the population's identifiers or with the numbers of its rows.
//!
//! ```text
//! positions STORE TABLE POPULATION DIR identifiers|positions
//! ```
//! POPULATION is a Parquet file whose first column has ids. Each thread writes a file of its own into DIR. Prints
//! the seconds and the number of written rows.

use arrow_array::RecordBatch;
use idmatch_engine::EngineStore;
use idmatch_model::{Pick, Side, Window};
use idmatch_store::{
    BatchSource, Error as StoreError, ErrorKind, MatchLane, MatchQuery, MatchSink, OpenTables,
    Result as StoreResult, SourceBatch,
};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

// As in the Python extension.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;

const BATCH_ROWS: usize = 1 << 16;
/// As the product writes row groups.
const GROUP_ROWS: usize = 1 << 18;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [store, table, population, dir, what] = words.as_slice() else {
        return Err("usage: positions STORE TABLE POPULATION DIR identifiers|positions".into());
    };
    let positions = match what.as_str() {
        "identifiers" => false,
        "positions" => true,
        _ => return Err("the last word is identifiers or positions".into()),
    };
    let table = EngineStore::open(Path::new(store))?.table(&table.parse()?)?;
    let began = Instant::now();
    let query = MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions };
    let found = table.match_population(&mut Population::open(population)?, query)?;
    let files = Files { dir: dir.into(), query, made: AtomicU64::new(0), rows: AtomicU64::new(0) };
    found.write(&files)?;
    println!("{} {}", began.elapsed().as_secs_f64(), files.rows.into_inner());
    Ok(())
}

/// The ids of a file, in order.
struct Population {
    name: Arc<str>,
    next_row: u64,
    batches: ParquetRecordBatchReader,
}

impl Population {
    fn open(path: &str) -> Result<Population, Failure> {
        let file = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
        let first = ProjectionMask::leaves(file.parquet_schema(), [0]);
        let batches = file.with_projection(first).with_batch_size(BATCH_ROWS).build()?;
        Ok(Population { name: path.into(), next_row: 1, batches })
    }
}

impl BatchSource for Population {
    fn next_batch(&mut self) -> StoreResult<Option<SourceBatch>> {
        let Some(batch) = self.batches.next().transpose().map_err(failed)? else { return Ok(None) };
        let first_row = self.next_row;
        self.next_row += batch.num_rows() as u64;
        Ok(Some(SourceBatch { source: Arc::clone(&self.name), first_row, batch }))
    }
}

/// A file for each lane.
struct Files {
    dir: PathBuf,
    query: MatchQuery,
    made: AtomicU64,
    rows: AtomicU64,
}

impl MatchSink for Files {
    fn lane(&self) -> StoreResult<Box<dyn MatchLane + '_>> {
        let path = self.dir.join(format!("{}.parquet", self.made.fetch_add(1, Relaxed)));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_dictionary_enabled(false)
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .build();
        let writer = File::create(path).map_err(failed).and_then(|file| {
            ArrowWriter::try_new(file, self.query.schema(), Some(properties)).map_err(failed)
        })?;
        Ok(Box::new(Lane { writer, rows: &self.rows }))
    }
}

struct Lane<'a> {
    writer: ArrowWriter<File>,
    rows: &'a AtomicU64,
}

impl MatchLane for Lane<'_> {
    fn push(&mut self, batch: RecordBatch) -> StoreResult<()> {
        self.rows.fetch_add(batch.num_rows() as u64, Relaxed);
        self.writer.write(&batch).map_err(failed)
    }

    fn finish(self: Box<Self>) -> StoreResult<()> {
        self.writer.close().map(drop).map_err(failed)
    }
}

fn failed(error: impl Into<Failure>) -> StoreError {
    StoreError::with_source(ErrorKind::Io, "cannot read the population or write the match", error)
}
