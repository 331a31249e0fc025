//! Writes matches to a Parquet file.
//!
//! Each lane encodes its own row groups, so all threads compress. The file takes the finished bytes
//! of one row group at a time.

use crate::interrupt::not_stopped;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use idmatch_model::Side;
use idmatch_store::{Error, ErrorKind, Match, MatchLane, MatchSink, Result, match_schema};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of a row group. Each lane holds one encoded row group in memory.
const GROUP_ROWS: usize = 1 << 18;
/// Values encoded per batch; the writer closes a page only between two batches.
const ENCODE_ROWS: usize = 4_096;
const WRITE_BUFFER_BYTES: usize = 1 << 20;

/// The names of the supported compressions.
const COMPRESSIONS: [&str; 5] = ["none", "snappy", "lz4", "zstd", "gzip"];

/// The compression with a name; InvalidArgument for an unknown name.
pub(crate) fn compression(name: &str) -> Result<Compression> {
    Ok(match name {
        "none" => Compression::UNCOMPRESSED,
        "snappy" => Compression::SNAPPY,
        "lz4" => Compression::LZ4_RAW,
        "zstd" => Compression::ZSTD(ZstdLevel::default()),
        "gzip" => Compression::GZIP(Default::default()),
        _ => {
            let text = format!("compression is {name:?}; use one of {}", COMPRESSIONS.join(", "));
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
    })
}

/// Writes a match to a file or a FIFO that exists. `stop` ends it.
pub(crate) fn write(
    matched: &dyn Match,
    by: Side,
    path: &Path,
    compression: Compression,
    stop: &AtomicBool,
) -> Result<()> {
    let cannot_write = |e: ParquetError| {
        Error::with_source(ErrorKind::Io, format!("cannot write {}", path.display()), e)
    };
    let file = File::options().write(true).open(path).map_err(|e| cannot_write(e.into()))?;
    let sink = ParquetSink::new(file, match_schema(by), compression, stop).map_err(cannot_write)?;
    matched.write(&sink)?;
    sink.finish().map_err(cannot_write)
}

/// The file, which takes one row group at a time.
struct ParquetSink<'a> {
    schema: SchemaRef,
    groups: ArrowRowGroupWriterFactory,
    file: Mutex<SerializedFileWriter<BufWriter<File>>>,
    stop: &'a AtomicBool,
}

impl<'a> ParquetSink<'a> {
    fn new(
        file: File,
        schema: SchemaRef,
        compression: Compression,
        stop: &'a AtomicBool,
    ) -> std::result::Result<ParquetSink<'a>, ParquetError> {
        let seen_at = schema.field(schema.fields().len() - 1).name().as_str();
        let mut properties = WriterProperties::builder()
            .set_compression(compression)
            // Identifiers rarely repeat, and dictionaries would double the time.
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_column_statistics_enabled(seen_at.into(), EnabledStatistics::Chunk)
            .set_write_batch_size(ENCODE_ROWS)
            .set_created_by(concat!("idmatch ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let columns = ArrowSchemaConverter::new().convert(&schema)?;
        let file = SerializedFileWriter::new(
            BufWriter::with_capacity(WRITE_BUFFER_BYTES, file),
            columns.root_schema_ptr(),
            Arc::new(properties),
        )?;
        let groups = ArrowRowGroupWriterFactory::new(&file, schema.clone());
        Ok(ParquetSink { schema, groups, file: Mutex::new(file), stop })
    }

    fn finish(self) -> std::result::Result<(), ParquetError> {
        self.file.into_inner().unwrap_or_else(PoisonError::into_inner).close()?;
        Ok(())
    }
}

impl MatchSink for ParquetSink<'_> {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        Ok(Box::new(GroupLane { sink: self, columns: Vec::new(), rows: 0 }))
    }
}

/// Encodes row groups.
struct GroupLane<'a> {
    sink: &'a ParquetSink<'a>,
    columns: Vec<ArrowColumnWriter>,
    rows: usize,
}

impl GroupLane<'_> {
    fn encode(&mut self, batch: &RecordBatch) -> std::result::Result<(), ParquetError> {
        if self.columns.is_empty() {
            // Only encrypted files use the number of a row group.
            self.columns = self.sink.groups.create_column_writers(0)?;
        }
        let fields = self.sink.schema.fields().iter().zip(batch.columns());
        for (column, (field, values)) in self.columns.iter_mut().zip(fields) {
            for leaf in compute_leaves(field, values)? {
                column.write(&leaf)?;
            }
        }
        self.rows += batch.num_rows();
        if self.rows < GROUP_ROWS { Ok(()) } else { self.end_group() }
    }

    fn end_group(&mut self) -> std::result::Result<(), ParquetError> {
        self.rows = 0;
        let columns = std::mem::take(&mut self.columns).into_iter();
        let chunks: Vec<_> =
            columns.map(ArrowColumnWriter::close).collect::<std::result::Result<_, _>>()?;
        let mut file = self.sink.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut group = file.next_row_group()?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut group)?;
        }
        group.close()?;
        Ok(())
    }
}

impl MatchLane for GroupLane<'_> {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        not_stopped(self.sink.stop)?;
        self.encode(&batch).map_err(group_failed)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.rows == 0 { Ok(()) } else { self.end_group().map_err(group_failed) }
    }
}

fn group_failed(error: ParquetError) -> Error {
    Error::with_source(ErrorKind::Io, "cannot write rows to the Parquet file", error)
}
