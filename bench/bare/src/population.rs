//! Reading and hashing the population.

use arrow_array::{Array, RecordBatch, StringArray};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::thread;
use xxhash_rust::xxh3::xxh3_64;

const BATCH_ROWS: usize = 64 * 1024;

/// Whatever went wrong.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// The `id` column as batches, one list per thread; thread t reads the row groups t, t + threads, ...
pub(crate) fn decode(file: &Path, threads: usize) -> Result<Vec<Vec<StringArray>>, Failure> {
    let metadata = ArrowReaderMetadata::load(&File::open(file)?, Default::default())?;
    let groups: Vec<usize> = (0..metadata.metadata().num_row_groups()).collect();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let own = groups.iter().copied().skip(worker).step_by(threads).collect();
                let metadata = metadata.clone();
                scope.spawn(move || decode_groups(file, metadata, own))
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| "a reader panicked")?).collect()
    })
}

fn decode_groups(
    file: &Path,
    metadata: ArrowReaderMetadata,
    groups: Vec<usize>,
) -> Result<Vec<StringArray>, Failure> {
    let id = ProjectionMask::columns(metadata.metadata().file_metadata().schema_descr(), ["id"]);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(File::open(file)?, metadata)
        .with_row_groups(groups)
        .with_projection(id)
        .with_batch_size(BATCH_ROWS)
        .build()?;
    reader.map(|batch| ids(&batch?)).collect()
}

fn ids(batch: &RecordBatch) -> Result<StringArray, Failure> {
    let column = batch.column_by_name("id").ok_or("the population has no column id")?;
    let text = column.as_any().downcast_ref::<StringArray>().ok_or("the column id is not text")?;
    Ok(text.clone())
}

/// The hashes of all ids, one list per thread.
pub(crate) fn hashes(ids: &[Vec<StringArray>], threads: usize) -> Vec<Vec<u64>> {
    debug_assert_eq!(ids.len(), threads);
    thread::scope(|scope| {
        let workers: Vec<_> = ids
            .iter()
            .map(|batches| {
                scope.spawn(move || {
                    let mut hashes =
                        Vec::with_capacity(batches.iter().map(|batch| batch.len()).sum());
                    for batch in batches {
                        hashes.extend(batch.iter().flatten().map(|id| xxh3_64(id.as_bytes())));
                    }
                    hashes
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_default()).collect()
    })
}
