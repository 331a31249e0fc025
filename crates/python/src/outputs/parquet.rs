//! Parquet. Each lane encodes row groups of its own. The file takes the finished bytes of one row group at a
//! time.

use super::output_file::OutputFile;
use crate::requested::cast_exactly;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef, TimeUnit};
use idmatch_store::locks::Mutex;
use idmatch_store::{Error, ErrorKind, MatchLane, MatchSink, Result};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use std::io::BufWriter;
use std::sync::Arc;

/// A row group ends with the batch that brings it to this many rows, or bytes of memory. Each lane holds one
/// group.
const GROUP_ROWS: usize = 1 << 18;
const GROUP_BYTES: usize = 64 << 20;
/// Values encoded per batch; the writer closes a page only between two batches.
const ENCODE_ROWS: usize = 4_096;
const WRITE_BUFFER_BYTES: usize = 1 << 20;

/// The names of the supported compressions.
const COMPRESSIONS: [&str; 5] = ["none", "snappy", "lz4", "zstd", "gzip"];

/// The compression with a name; InvalidArgument for an unknown name.
pub(super) fn compression(name: &str) -> Result<Compression> {
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

/// The file, which takes one row group at a time.
pub(super) struct ParquetSink {
    schema: SchemaRef,
    groups: ArrowRowGroupWriterFactory,
    file: Mutex<SerializedFileWriter<BufWriter<OutputFile>>>,
}

impl ParquetSink {
    pub(super) fn new(
        file: OutputFile,
        schema: SchemaRef,
        compression: Compression,
    ) -> Result<ParquetSink> {
        ParquetSink::try_new(file, schema, compression).map_err(file_failed)
    }

    fn try_new(
        file: OutputFile,
        schema: SchemaRef,
        compression: Compression,
    ) -> std::result::Result<ParquetSink, ParquetError> {
        let schema = stored(&schema);
        let mut properties = WriterProperties::builder()
            .set_compression(compression)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_write_batch_size(ENCODE_ROWS)
            .set_created_by(concat!("idmatch ", env!("CARGO_PKG_VERSION")).to_owned());
        for field in schema.fields() {
            let column = ColumnPath::from(field.name().as_str());
            if let DataType::Timestamp(..) = field.data_type() {
                let statistics = EnabledStatistics::Chunk;
                properties = properties.set_column_statistics_enabled(column.clone(), statistics);
            }
            if hardly_repeats(field.name()) {
                // Dictionaries would double the time.
                properties = properties.set_column_dictionary_enabled(column, false);
            }
        }
        let mut properties = properties.build();
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let columns = ArrowSchemaConverter::new().convert(&schema)?;
        let file = SerializedFileWriter::new(
            BufWriter::with_capacity(WRITE_BUFFER_BYTES, file),
            columns.root_schema_ptr(),
            Arc::new(properties),
        )?;
        let groups = ArrowRowGroupWriterFactory::new(&file, schema.clone());
        Ok(ParquetSink { schema, groups, file: Mutex::new(file) })
    }

    pub(super) fn finish(self) -> Result<()> {
        let file = self.file.into_inner();
        file.close().map(drop).map_err(file_failed)
    }
}

impl MatchSink for ParquetSink {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        Ok(Box::new(GroupLane { sink: self, columns: Vec::new(), rows: 0 }))
    }
}

/// Encodes row groups.
struct GroupLane<'a> {
    sink: &'a ParquetSink,
    columns: Vec<ArrowColumnWriter>,
    rows: usize,
}

impl GroupLane<'_> {
    fn encode(&mut self, batch: &RecordBatch) -> std::result::Result<(), ParquetError> {
        if self.columns.is_empty() {
            // Only encrypted files use the number of a row group.
            self.columns = self.sink.groups.create_column_writers(0)?;
        }
        // A nested field has several leaves, each with a writer of its own.
        let mut columns = self.columns.iter_mut();
        for (field, values) in self.sink.schema.fields().iter().zip(batch.columns()) {
            let values = match field.data_type() == values.data_type() {
                true => values,
                false => &cast_exactly(values, field)?,
            };
            for leaf in compute_leaves(field, values)? {
                let column = columns.next().ok_or_else(|| {
                    ParquetError::General(format!("column {:?} has too many leaves", field.name()))
                })?;
                column.write(&leaf)?;
            }
        }
        self.rows += batch.num_rows();
        let bytes: usize = self.columns.iter().map(ArrowColumnWriter::memory_size).sum();
        if self.rows < GROUP_ROWS && bytes < GROUP_BYTES { Ok(()) } else { self.end_group() }
    }

    fn end_group(&mut self) -> std::result::Result<(), ParquetError> {
        self.rows = 0;
        let columns = std::mem::take(&mut self.columns).into_iter();
        let chunks: Vec<_> =
            columns.map(ArrowColumnWriter::close).collect::<std::result::Result<_, _>>()?;
        let mut file = self.sink.file.lock();
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
        self.encode(&batch).map_err(file_failed)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.rows == 0 { Ok(()) } else { self.end_group().map_err(file_failed) }
    }
}

/// The columns as Parquet has them: seconds and days in milliseconds would come back as bare numbers.
fn stored(schema: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(stored_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn stored_field(field: &FieldRef) -> FieldRef {
    let kind = match field.data_type() {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Date64 => DataType::Date32,
        DataType::List(of) => DataType::List(stored_field(of)),
        DataType::LargeList(of) => DataType::LargeList(stored_field(of)),
        DataType::FixedSizeList(of, size) => DataType::FixedSizeList(stored_field(of), *size),
        DataType::Struct(of) => DataType::Struct(of.iter().map(stored_field).collect()),
        DataType::Map(of, is_sorted) => DataType::Map(stored_field(of), *is_sorted),
        _ => return field.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(kind))
}

/// Whether a column of this name has identifiers or dates of a match.
fn hardly_repeats(column: &str) -> bool {
    let ours = ["id", "partner_id", "id_2", "partner_id_2", "seen_at"];
    ours.contains(&column) || column.starts_with("hop_")
}

/// The error of a file that cannot be written, or of rows that cannot be encoded.
fn file_failed(e: ParquetError) -> Error {
    match e {
        ParquetError::External(e) if e.is::<std::io::Error>() => {
            Error::with_source(ErrorKind::Io, "cannot write the output", e)
        }
        e => {
            let text = "Parquet cannot hold these columns; leave them out, or write another format";
            Error::with_source(ErrorKind::InvalidArgument, text, e)
        }
    }
}
