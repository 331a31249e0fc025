//! Reads journal files, from where an earlier read stopped; tells an interrupted end from damage.

use super::file::file;
use super::record::{Entries, FORMAT, FileHeader, HEADER_BYTES, Record, Start, Tail, check_header};
use crate::disk::Disk;
use crate::disk::{corrupt, io_error, other_format};
use idmatch_store::Result;
use std::io;
use std::ops::Range;
use std::path::Path;

/// The result of reading a file. A writer may have appended to the file since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// The file was read up to this offset.
    Read { end: usize },
    /// There is no such file.
    Gone,
}

/// An item of a file.
pub(crate) enum JournalItem<'a> {
    /// The header: it comes first, where a file is read from its start.
    Header(FileHeader),
    /// A whole record: its offset, its commit and its entries.
    Record(usize, u64, Entries<'a>),
}

/// Gives the items of a file from an offset on to `take`, in order.
///
/// # Errors
/// `Corrupt`, with file and offset, where a record that was durable is no longer whole; `UnsupportedFormat`
/// for a file of a newer version; `Io`; and the error of `take`.
pub(crate) fn read(
    disk: &dyn Disk,
    folder: &Path,
    number: u64,
    from: usize,
    take: &mut dyn FnMut(JournalItem<'_>) -> Result<()>,
) -> Result<ReadOutcome> {
    let path = file(folder, number);
    let bytes = match disk.read_from(&path, from as u64) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(ReadOutcome::Gone),
        Err(e) => return Err(io_error("read", &path, e)),
    };
    scan(folder, number, from, &bytes, take)
}

/// Gives the items of bytes that were read already.
pub(crate) fn scan(
    folder: &Path,
    number: u64,
    from: usize,
    bytes: &[u8],
    take: &mut dyn FnMut(JournalItem<'_>) -> Result<()>,
) -> Result<ReadOutcome> {
    let path = file(folder, number);
    let tail = Tail { number, offset: from, bytes };
    let mut at = from;
    if at == 0 {
        match check_header(bytes, number) {
            Start::Good(header) => {
                take(JournalItem::Header(header))?;
                at = HEADER_BYTES;
            }
            Start::OtherFormat(format) => {
                return Err(other_format(&path, "journal", format, FORMAT));
            }
            Start::Bad => {}
        }
    }
    while at > 0 {
        let Some(Record { commit, entries, next, .. }) = tail.record(at) else { break };
        take(JournalItem::Record(at, commit, Entries::new(entries)))?;
        at = next;
    }
    // Later bytes are an interrupted write, unless a later record proves that they had been durable.
    let later = tail.last_record_after(at).map_or(0, |record| record.durable);
    check_end(folder, number, at, later)?;
    Ok(ReadOutcome::Read { end: at })
}

/// Refuses a file that ends at `end` but is known to have been durable up to `durable`.
pub(crate) fn check_end(folder: &Path, number: u64, end: usize, durable: u64) -> Result<()> {
    if durable <= end as u64 {
        return Ok(());
    }
    let what = "a record of the journal that had been made durable is missing or damaged";
    Err(corrupt(&file(folder, number), end, what))
}

/// The whole records of a file, which may be damaged.
#[derive(Default)]
pub(crate) struct ReadableRecords {
    pub(crate) records: Vec<ReadableRecord>,
    /// The length up to which the file was durable, as its own records say.
    pub(crate) durable: u64,
    /// `None` where it is damaged.
    pub(crate) header: Option<FileHeader>,
}

/// A whole record of a file, which may be damaged elsewhere.
pub(crate) struct ReadableRecord {
    pub(crate) place: Range<usize>,
    pub(crate) commit: u64,
    pub(crate) entries: Vec<u8>,
}

impl ReadableRecords {
    /// Reads all whole records.
    ///
    /// # Errors
    /// `UnsupportedFormat`, and `Io`.
    pub(crate) fn read(disk: &dyn Disk, folder: &Path, number: u64) -> Result<ReadableRecords> {
        let path = file(folder, number);
        let bytes = &disk.read(&path).map_err(|e| io_error("read", &path, e))?;
        let mut readable = ReadableRecords::default();
        match check_header(bytes, number) {
            Start::Good(header) => readable.header = Some(header),
            Start::OtherFormat(format) => {
                return Err(other_format(&path, "journal", format, FORMAT));
            }
            Start::Bad => {}
        }
        let tail = Tail { number, offset: 0, bytes };
        let mut at = HEADER_BYTES;
        while let Some((start, record)) = tail.first_record_from(at) {
            readable.records.push(ReadableRecord {
                place: start..record.next,
                commit: record.commit,
                entries: record.entries.to_vec(),
            });
            readable.durable = readable.durable.max(record.durable);
            at = record.next;
        }
        Ok(readable)
    }

    /// The durable byte ranges that are in no readable record. `durable` is the durable length of the file,
    /// as any journal file says.
    pub(crate) fn holes(&self, durable: u64) -> Vec<Range<usize>> {
        let durable = usize::try_from(durable).unwrap_or(usize::MAX);
        let mut holes = Vec::new();
        let mut at = if self.header.is_some() { HEADER_BYTES } else { 0 };
        let ends = self.records.iter().map(|record| record.place.clone());
        for place in ends.chain(std::iter::once(durable..durable)) {
            let hole = at..place.start.min(durable);
            if !hole.is_empty() && hole != (0..HEADER_BYTES) {
                holes.push(hole);
            }
            at = place.end.max(at);
        }
        holes
    }
}
