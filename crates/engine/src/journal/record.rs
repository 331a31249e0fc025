//! The bytes of a journal file.
//!
//! ```text
//! file    0 magic 8 | 8 format u32 | 12 zero u32 | 16 number u64
//!        24 before u64: how long the file before was, durably
//!        32 store 16 | 48 identity 16 | 64 identity of the file before 16 | 80 checksum u64 of 0..80
//!        88 records, each at a multiple of 8
//! record  0 checksum u64 of the rest | 8 mark u32 | 12 length of the entries u32
//!        16 durable u64: how many bytes of the file were durable before | 24 commit u64
//!        32 entries, then zeros up to a multiple of 8
//! entry   0 table 16 | 16 rows u32 | 20 length of the rows u32 | 24 rows
//! row     seen_at, 6 bytes | id | partner_id, as in crate::encoding::record
//! ```

use crate::encoding::bytes::{array, slice, u32_at, u64_at};
use crate::identity::Identity;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"IDMJRN\r\n";
const RECORD_MAGIC: u32 = 0x524d_4449; // "IDMR"
pub(super) const FORMAT: u32 = 2;
pub(super) const HEADER_BYTES: usize = 88;
const SUM_AT: usize = 80;
pub(super) const RECORD_HEADER: usize = 32;
const ENTRY_HEADER: usize = 24;
const ALIGN: usize = 8;

/// The header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FileHeader {
    pub(crate) number: u64,
    /// The durable length of the file before.
    pub(crate) before: u64,
    pub(crate) store: Identity,
    /// The file's own identity, and that of the file before; zeros if it is the first.
    pub(crate) id: Identity,
    pub(crate) id_before: Identity,
}

impl FileHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.before.to_le_bytes());
        for id in [self.store, self.id, self.id_before] {
            out.extend_from_slice(&id.0);
        }
        let sum = XxHash3_64::oneshot(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<FileHeader> {
        let header = FileHeader {
            number: u64_at(bytes, 16)?,
            before: u64_at(bytes, 24)?,
            store: Identity(array(bytes, 32)?),
            id: Identity(array(bytes, 48)?),
            id_before: Identity(array(bytes, 64)?),
        };
        bytes.starts_with(&header.encode()).then_some(header)
    }
}

const _: () = assert!(SUM_AT + 8 == HEADER_BYTES);

/// The result of reading the start of a file.
pub(super) enum Start {
    /// The start is as it was written.
    Good(FileHeader),
    /// The number of a format that this version does not read.
    OtherFormat(u32),
    Bad,
}

pub(super) fn check_header(bytes: &[u8], number: u64) -> Start {
    match u32_at(bytes, 8) {
        Some(format) if bytes.starts_with(&MAGIC) && format != FORMAT => Start::OtherFormat(format),
        _ => match FileHeader::decode(bytes).filter(|header| header.number == number) {
            Some(header) => Start::Good(header),
            None => Start::Bad,
        },
    }
}

/// Appends an entry: the rows of one table.
pub(crate) fn encode_batch(out: &mut Vec<u8>, table: Identity, count: u32, rows: &[u8]) {
    out.extend_from_slice(&table.0);
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&(rows.len() as u32).to_le_bytes());
    out.extend_from_slice(rows);
}

/// Puts a record around entries.
pub(crate) fn record(
    (number, offset): (u64, u64),
    durable: u64,
    commit: u64,
    entries: &[u8],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(padded(RECORD_HEADER + entries.len()));
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&RECORD_MAGIC.to_le_bytes());
    out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    out.extend_from_slice(&durable.to_le_bytes());
    out.extend_from_slice(&commit.to_le_bytes());
    out.extend_from_slice(entries);
    out.resize(padded(out.len()), 0);
    let sum = checksum(number, offset, out.get(8..).unwrap_or_default());
    if let Some(place) = out.get_mut(..8) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
    out
}

/// The checksum of a record. It covers the place of the record, so that bytes of an older file on the disk
/// are no record.
fn checksum(number: u64, offset: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(number << 40 ^ offset, bytes)
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(ALIGN)
}

/// A whole record.
pub(super) struct Record<'a> {
    pub(super) durable: u64,
    pub(super) commit: u64,
    pub(super) entries: &'a [u8],
    pub(super) next: usize,
}

/// The end of a file, from an offset on.
#[derive(Clone, Copy)]
pub(super) struct Tail<'a> {
    pub(super) number: u64,
    pub(super) offset: usize,
    pub(super) bytes: &'a [u8],
}

impl<'a> Tail<'a> {
    /// The record at an offset of the file, if it is whole.
    pub(super) fn record(&self, offset: usize) -> Option<Record<'a>> {
        let at = offset.checked_sub(self.offset)?;
        if u32_at(self.bytes, at.checked_add(8)?)? != RECORD_MAGIC {
            return None;
        }
        let len = u32_at(self.bytes, at + 12)? as usize;
        let size = padded(RECORD_HEADER.checked_add(len)?);
        let whole = slice(self.bytes, at, size)?;
        let sum = checksum(self.number, offset as u64, whole.get(8..)?);
        (u64_at(whole, 0)? == sum).then_some(())?;
        let (durable, commit) = (u64_at(whole, 16)?, u64_at(whole, 24)?);
        let next = offset.checked_add(size)?;
        Some(Record { durable, commit, entries: slice(whole, RECORD_HEADER, len)?, next })
    }

    /// The first whole record from an offset on, and where it is.
    pub(super) fn first_record_from(&self, offset: usize) -> Option<(usize, Record<'a>)> {
        let first = offset.next_multiple_of(ALIGN).max(HEADER_BYTES);
        let end = self.offset + self.bytes.len();
        (first..end).step_by(ALIGN).find_map(|at| Some((at, self.record(at)?)))
    }

    /// The last whole record that starts after an offset.
    pub(super) fn last_record_after(&self, offset: usize) -> Option<Record<'a>> {
        let first = (offset + 1).next_multiple_of(ALIGN).max(HEADER_BYTES);
        let end = self.offset + self.bytes.len();
        (first..end).step_by(ALIGN).rev().find_map(|at| self.record(at))
    }
}

/// The rows of one table in a record.
pub(crate) struct BatchRef<'a> {
    pub(crate) table: Identity,
    pub(crate) count: u32,
    pub(crate) rows: &'a [u8],
}

/// The entries of a record. An item is `None` where bytes are no entry.
pub(crate) struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Option<BatchRef<'a>>;

    fn next(&mut self) -> Option<Option<BatchRef<'a>>> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.read();
        if entry.is_none() {
            self.0 = &[];
        }
        Some(entry)
    }
}

impl<'a> Entries<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Entries<'a> {
        Entries(bytes)
    }

    fn read(&mut self) -> Option<BatchRef<'a>> {
        let table = Identity(array(self.0, 0)?);
        let count = u32_at(self.0, 16)?;
        let len = u32_at(self.0, 20)? as usize;
        let rows = slice(self.0, ENTRY_HEADER, len)?;
        self.0 = self.0.get(ENTRY_HEADER + len..)?;
        Some(BatchRef { table, count, rows })
    }
}
