//! CSV and JSON lines, plain, gzip or zstd.
//!
//! A lane compresses blocks, each a member (gzip) or frame (zstd) of its own, which readers take as one file.

use super::failed::{encoding_failed, file_failed};
use super::output_file::OutputFile;
use arrow_array::RecordBatch;
use arrow_csv::WriterBuilder as CsvBuilder;
use arrow_json::writer::{LineDelimited, WriterBuilder as JsonBuilder};
use arrow_schema::SchemaRef;
use flate2::Compression;
use flate2::write::GzEncoder;
use idmatch_store::locks::Mutex;
use idmatch_store::{Error, ErrorKind, MatchLane, MatchSink, Result};
use std::io::Write;

/// Bytes of text that are written at once, and compressed by themselves.
const BLOCK_BYTES: usize = 4 << 20;

/// Kinds of text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TextFormat {
    Csv,
    JsonLines,
}

/// Ways to compress text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    /// The compression of a name; InvalidArgument for an unknown name.
    pub(super) fn of(name: &str) -> Result<Packing> {
        match name {
            "none" => Ok(Packing::None),
            "gzip" => Ok(Packing::Gzip),
            "zstd" => Ok(Packing::Zstd),
            _ => {
                let text = format!("compression is {name:?}; text is none, gzip or zstd");
                Err(Error::new(ErrorKind::InvalidArgument, text))
            }
        }
    }

    fn pack(self, block: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Packing::None => Ok(block.to_vec()),
            Packing::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(block)?;
                encoder.finish()
            }
            Packing::Zstd => zstd::bulk::compress(block, zstd::DEFAULT_COMPRESSION_LEVEL),
        }
    }
}

/// A file that takes one block at a time.
pub(super) struct TextSink {
    format: TextFormat,
    packing: Packing,
    file: Mutex<OutputFile>,
}

impl TextSink {
    /// Writes the header of CSV. A compressed file always begins with a block: an empty file would not be a
    /// compressed one.
    pub(super) fn new(
        file: OutputFile,
        format: TextFormat,
        packing: Packing,
        schema: &SchemaRef,
    ) -> Result<TextSink> {
        let sink = TextSink { format, packing, file: Mutex::new(file) };
        let mut header = Vec::new();
        if let TextFormat::Csv = format {
            let mut writer = CsvBuilder::new().with_header(true).build(&mut header);
            writer.write(&RecordBatch::new_empty(schema.clone())).map_err(encoding_failed)?;
        }
        sink.write(&header)?;
        Ok(sink)
    }

    pub(super) fn finish(self) -> Result<()> {
        let mut file = self.file.into_inner();
        file.flush().map_err(file_failed)
    }

    fn write(&self, block: &[u8]) -> Result<()> {
        let packed = self.packing.pack(block).map_err(file_failed)?;
        let mut file = self.file.lock();
        file.write_all(&packed).map_err(file_failed)
    }
}

impl MatchSink for TextSink {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        Ok(Box::new(TextLane { sink: self, block: Vec::new() }))
    }
}

struct TextLane<'a> {
    sink: &'a TextSink,
    block: Vec<u8>,
}

impl TextLane<'_> {
    fn write(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.sink.write(&self.block)?;
        self.block.clear();
        Ok(())
    }
}

impl MatchLane for TextLane<'_> {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        match self.sink.format {
            TextFormat::Csv => {
                let mut writer = CsvBuilder::new().with_header(false).build(&mut self.block);
                writer.write(&batch).map_err(encoding_failed)?;
            }
            TextFormat::JsonLines => {
                // Each object has all columns: readers take the first for a schema.
                let builder = JsonBuilder::new().with_explicit_nulls(true);
                let mut writer = builder.build::<_, LineDelimited>(&mut self.block);
                writer.write(&batch).map_err(encoding_failed)?;
            }
        }
        if self.block.len() < BLOCK_BYTES { Ok(()) } else { self.write() }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.write()
    }
}
