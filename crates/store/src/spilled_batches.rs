//! Batches that wait until they are read: in memory up to a limit, then in a temporary file.
//!
//! The file has no name, and only its owner can read it. Every batch in it has a checksum. Must not know what
//! the rows are.

use crate::locks::Mutex;
use crate::{Error, ErrorKind, Result};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// Keeps batches until they are read. Several threads may push and read.
#[derive(Debug, Default)]
pub struct SpilledBatches {
    /// Bytes that stay in memory.
    most: usize,
    buffered: Mutex<SpillBuffer>,
    /// Buffers of earlier pushes, for reuse: new memory would cost more than the bytes that are written to
    /// it.
    buffers: Mutex<Vec<Vec<u8>>>,
}

/// How much is in memory, and the file for the rest.
#[derive(Debug, Default)]
struct SpillBuffer {
    bytes_in_memory: usize,
    /// The file and its length; `None` before it is needed.
    file: Option<(Arc<File>, u64)>,
}

/// A batch that waits.
#[derive(Debug, Clone)]
pub struct SpilledBatch {
    rows: usize,
    location: SpillLocation,
}

/// Where a batch is stored.
#[derive(Debug, Clone)]
enum SpillLocation {
    /// A batch that owns its memory.
    Batch(RecordBatch),
    /// A copy, so that the caller's memory is not kept.
    Copy(Buffer),
    File {
        file: Arc<File>,
        offset: u64,
        len: usize,
        checksum: u64,
    },
}

impl SpilledBatch {
    /// Its number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Reads the batch. It can be read any number of times.
    ///
    /// # Errors
    /// `Io`; `Corrupt` if the file changed.
    pub fn read(&self) -> Result<RecordBatch> {
        let mut bytes = match &self.location {
            SpillLocation::Batch(batch) => return Ok(batch.clone()),
            SpillLocation::Copy(bytes) => bytes.clone(),
            SpillLocation::File { file, offset, len, checksum } => {
                let mut bytes = vec![0; *len];
                file.read_exact_at(&mut bytes, *offset).map_err(failed)?;
                if XxHash3_64::oneshot(&bytes) != *checksum {
                    return Err(changed());
                }
                bytes.into()
            }
        };
        StreamDecoder::new().decode(&mut bytes).map_err(failed)?.ok_or_else(changed)
    }
}

impl SpillBuffer {
    /// Counts this many more bytes if they fit in memory, and returns whether they do.
    fn reserve(&mut self, most: usize, bytes: usize) -> bool {
        let fits = self.file.is_none() && self.bytes_in_memory + bytes <= most;
        self.bytes_in_memory += if fits { bytes } else { 0 };
        fits
    }
}

impl SpilledBatches {
    /// Starts without batches. It keeps up to `most` bytes of them in memory.
    pub fn new(most: usize) -> SpilledBatches {
        SpilledBatches { most, ..SpilledBatches::default() }
    }

    /// Whether there is a file.
    pub fn is_in_file(&self) -> bool {
        self.buffered.lock().file.is_some()
    }

    /// Keeps a batch that owns its memory. One that does not fit is copied as by [`push`](Self::push).
    ///
    /// # Errors
    /// `Io` if the system's folder for temporary files cannot take it.
    pub fn push_own(&self, batch: RecordBatch) -> Result<SpilledBatch> {
        if !self.buffered.lock().reserve(self.most, batch.get_array_memory_size()) {
            return self.push(&batch);
        }
        Ok(SpilledBatch { rows: batch.num_rows(), location: SpillLocation::Batch(batch) })
    }

    /// Copies a batch to memory or to the file.
    ///
    /// # Errors
    /// `Io` if the system's folder for temporary files cannot take it.
    pub fn push(&self, batch: &RecordBatch) -> Result<SpilledBatch> {
        let mut bytes = self.buffers.lock().pop().unwrap_or_default();
        bytes.clear();
        let mut writer = StreamWriter::try_new(bytes, batch.schema_ref()).map_err(failed)?;
        writer.write(batch).map_err(failed)?;
        let bytes = writer.into_inner().map_err(failed)?;
        let batch = self.keep(batch.num_rows(), &bytes);
        self.buffers.lock().push(bytes);
        batch
    }

    fn keep(&self, rows: usize, bytes: &[u8]) -> Result<SpilledBatch> {
        let (file, offset) = {
            let mut buffered = self.buffered.lock();
            if buffered.reserve(self.most, bytes.len()) {
                let bytes = Buffer::from(bytes);
                return Ok(SpilledBatch { rows, location: SpillLocation::Copy(bytes) });
            }
            let (file, end) = match &mut buffered.file {
                Some(file) => file,
                none => none.insert((Arc::new(tempfile::tempfile().map_err(failed)?), 0)),
            };
            let offset = *end;
            *end += bytes.len() as u64;
            (Arc::clone(file), offset)
        };
        file.write_all_at(bytes, offset).map_err(failed)?;
        let (len, checksum) = (bytes.len(), XxHash3_64::oneshot(bytes));
        Ok(SpilledBatch { rows, location: SpillLocation::File { file, offset, len, checksum } })
    }
}

fn failed(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let what = "cannot keep the rows of a match in the folder for temporary files (TMPDIR)";
    Error::with_source(ErrorKind::Io, what, e)
}

fn changed() -> Error {
    let what =
        "the rows of a match in the folder for temporary files (TMPDIR) changed; match again";
    Error::new(ErrorKind::Corrupt, what)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{Array, ArrayRef, DictionaryArray, Int64Array, StringArray, StringViewArray};

    const ROWS: usize = 4_096;

    fn batch() -> RecordBatch {
        let text = |row: usize| (!row.is_multiple_of(7)).then(|| format!("a text of {row} rows"));
        let values = ["a", "b"].into_iter().cycle().take(ROWS);
        let columns: [ArrayRef; 4] = [
            Arc::new((0..ROWS as i64).collect::<Int64Array>()),
            Arc::new((0..ROWS).map(text).collect::<StringArray>()),
            Arc::new((0..ROWS).map(text).collect::<StringViewArray>()),
            Arc::new(values.collect::<DictionaryArray<Int32Type>>()),
        ];
        let names = ["number", "text", "view", "dictionary"];
        RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap()
    }

    #[test]
    fn batches_in_memory_and_in_a_file_are_as_they_came() {
        let all = batch();
        let slices = [all.clone(), all.slice(100, 10), all.slice(1, ROWS - 1), all.slice(0, 0)];
        for (most, is_in_file) in [(0, true), (300_000, true), (usize::MAX, false)] {
            let spilled = SpilledBatches::new(most);
            for rows in &slices {
                for kept in [spilled.push(rows), spilled.push_own(rows.clone())] {
                    let kept = kept.unwrap();
                    assert_eq!((kept.rows(), &kept.read().unwrap()), (rows.num_rows(), rows));
                    assert_eq!(&kept.read().unwrap(), rows);
                }
            }
            assert_eq!(spilled.is_in_file(), is_in_file);
        }
    }

    #[test]
    fn only_own_memory_is_not_copied() {
        let numbers = batch().project(&[0]).unwrap();
        let start = |batch: &RecordBatch| batch.column(0).to_data().buffers()[0].as_ptr();
        let spilled = SpilledBatches::new(usize::MAX);
        let own = spilled.push_own(numbers.clone()).unwrap().read().unwrap();
        assert_eq!(start(&own), start(&numbers));
        let copy = spilled.push(&numbers).unwrap().read().unwrap();
        assert_ne!(start(&copy), start(&numbers));
    }

    #[test]
    fn own_memory_counts() {
        let numbers = batch().project(&[0]).unwrap();
        let spilled = SpilledBatches::new(2 * numbers.get_array_memory_size());
        for is_in_file in [false, false, true] {
            spilled.push_own(numbers.clone()).unwrap();
            assert_eq!(spilled.is_in_file(), is_in_file);
        }
    }
}
