//! Arrow IPC: batches without changes, one lane at a time.

use super::failed::encoding_failed;
use super::output_file::OutputFile;
use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::SchemaRef;
use idmatch_store::locks::Mutex;
use idmatch_store::{MatchLane, MatchSink, Result};
use std::io::BufWriter;

/// A file that takes one batch at a time.
pub(super) struct IpcSink(Mutex<IpcWriter>);

enum IpcWriter {
    File(FileWriter<BufWriter<OutputFile>>),
    Stream(StreamWriter<BufWriter<OutputFile>>),
}

impl IpcSink {
    /// A file, or else a stream.
    pub(super) fn new(file: OutputFile, schema: &SchemaRef, is_file: bool) -> Result<IpcSink> {
        let writer = if is_file {
            FileWriter::try_new_buffered(file, schema).map(IpcWriter::File)
        } else {
            StreamWriter::try_new_buffered(file, schema).map(IpcWriter::Stream)
        };
        Ok(IpcSink(Mutex::new(writer.map_err(encoding_failed)?)))
    }

    pub(super) fn finish(self) -> Result<()> {
        let flushed = match self.0.into_inner() {
            IpcWriter::File(mut writer) => writer.finish().and_then(|()| writer.flush()),
            IpcWriter::Stream(mut writer) => writer.finish().and_then(|()| writer.flush()),
        };
        flushed.map_err(encoding_failed)
    }
}

impl MatchSink for IpcSink {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        Ok(Box::new(IpcLane(&self.0)))
    }
}

struct IpcLane<'a>(&'a Mutex<IpcWriter>);

impl MatchLane for IpcLane<'_> {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let mut writer = self.0.lock();
        let written = match &mut *writer {
            IpcWriter::File(writer) => writer.write(&batch),
            IpcWriter::Stream(writer) => writer.write(&batch),
        };
        written.map_err(encoding_failed)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
