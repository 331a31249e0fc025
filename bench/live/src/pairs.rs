//! Pairs that are in the table already: a flat file of 24 bytes each, so that it can be mapped
//! and counts as no private memory.

use crate::Failure;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use memmap2::Mmap;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const BYTES: usize = 24;

/// Pairs of (16 bytes, written as 32 hex digits; a number).
pub(crate) struct Pairs(Mmap);

impl Pairs {
    pub(crate) fn map(path: &Path) -> Result<Pairs, Failure> {
        // SAFETY: an earlier run of this program made the file, and nothing writes it.
        let map = unsafe { Mmap::map(&File::open(path)?)? };
        // In memory before timing starts: a page fault would count as latency.
        map.advise(memmap2::Advice::Random)?;
        map.advise(memmap2::Advice::PopulateRead)?;
        if map.len() < BYTES { Err("there are no pairs".into()) } else { Ok(Pairs(map)) }
    }

    pub(crate) fn len(&self) -> u64 {
        (self.0.len() / BYTES) as u64
    }

    pub(crate) fn get(&self, number: u64) -> ([u8; 16], u64) {
        let (pair, _) = self.0[number as usize * BYTES..].split_at(BYTES);
        let (id, partner_id) = pair.split_at(16);
        (
            id.try_into().unwrap_or_default(),
            u64::from_le_bytes(partner_id.try_into().unwrap_or_default()),
        )
    }
}

/// Writes pairs of Parquet files, evenly chosen.
pub(crate) fn make(out: &Path, at_most: u64, files: &[PathBuf]) -> Result<Value, Failure> {
    let mut rows = 0;
    for file in files {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?;
        rows += reader.metadata().file_metadata().num_rows() as u64;
    }
    let step = rows.div_ceil(at_most).max(1);
    let (mut number, mut written) = (0u64, 0u64);
    let mut out = BufWriter::with_capacity(1 << 20, File::create(out)?);
    for file in files {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let columns = ProjectionMask::columns(&schema, ["id", "partner_id"]);
        for batch in reader.with_projection(columns).with_batch_size(1 << 16).build()? {
            let batch = batch?;
            let (ids, partner_ids) = (text(&batch, "id")?, text(&batch, "partner_id")?);
            for (id, partner_id) in ids.iter().zip(partner_ids) {
                if number % step == 0 {
                    let id = u128::from_str_radix(id.unwrap_or_default(), 16)?;
                    out.write_all(&id.to_be_bytes())?;
                    out.write_all(&partner_id.unwrap_or_default().parse::<u64>()?.to_le_bytes())?;
                    written += 1;
                }
                number += 1;
            }
        }
    }
    out.into_inner().map_err(|e| e.into_error())?.sync_data()?;
    Ok(json!({ "pairs": written, "rows": rows }))
}

fn text<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b arrow_array::StringArray, Failure> {
    let column = batch.column_by_name(name).ok_or_else(|| format!("there is no column {name}"))?;
    Ok(column.as_string_opt().ok_or_else(|| format!("{name} is not text"))?)
}
