//! A file in any of the formats.

use super::ipc::IpcSink;
use super::output_file::OutputFile;
use super::parquet::{ParquetSink, compression as parquet_compression};
use super::text::{Packing, TextFormat, TextSink};
use arrow_schema::SchemaRef;
use idmatch_store::{Call, Error, ErrorKind, MatchSink, Result};
use parquet::basic;
use std::path::Path;

/// How rows are written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    Parquet(basic::Compression),
    Text(TextFormat, Packing),
    /// Arrow IPC: a file, whose batches can be read in any order.
    ArrowFile,
    /// Arrow IPC: a stream.
    ArrowStream,
}

impl Format {
    /// The format of a name, with a compression.
    ///
    /// # Errors
    /// `InvalidArgument` for a format that does not exist, or has no such compression.
    pub(crate) fn of(name: &str, compression: &str) -> Result<Format> {
        Ok(match name {
            "parquet" => Format::Parquet(parquet_compression(compression)?),
            "csv" => Format::Text(TextFormat::Csv, Packing::of(compression)?),
            "jsonl" => Format::Text(TextFormat::JsonLines, Packing::of(compression)?),
            "arrow" => Format::ArrowFile,
            "arrow stream" => Format::ArrowStream,
            _ => {
                let text =
                    format!("format is {name:?}; use parquet, csv, jsonl, arrow or arrow stream");
                return Err(Error::new(ErrorKind::InvalidArgument, text));
            }
        })
    }
}

/// Writes the rows of `send` to a file or a FIFO.
///
/// # Errors
/// The errors of `send`; `Io` where the file cannot be written; `InvalidArgument` for columns that the format
/// cannot hold; `Cancelled` or `Io` where the call ends before that.
pub(crate) fn write(
    path: &Path,
    format: Format,
    schema: &SchemaRef,
    call: &Call,
    send: impl FnOnce(&dyn MatchSink) -> Result<()>,
) -> Result<()> {
    let timings = call.timings();
    // A FIFO waits for its reader.
    let file = timings.single_threaded(|| OutputFile::open(path, call))?;
    match format {
        Format::Parquet(compression) => {
            let sink = ParquetSink::new(file, schema.clone(), compression)?;
            send(&sink)?;
            timings.single_threaded(|| sink.finish())
        }
        Format::Text(text, packing) => {
            let sink = TextSink::new(file, text, packing, schema)?;
            send(&sink)?;
            timings.single_threaded(|| sink.finish())
        }
        Format::ArrowFile | Format::ArrowStream => {
            let sink = IpcSink::new(file, schema, matches!(format, Format::ArrowFile))?;
            send(&sink)?;
            timings.single_threaded(|| sink.finish())
        }
    }
}
