//! Tombstone files.
//!
//! ```text
//!  0 magic 8 | 8 format u32 | 12 kind u8, 3 zeros | 16 count u64 | 24 load u64
//! 32 store 16 | 48 table 16: zeros for the whole store | 64 checksum u64 of 0..64
//! 72 pages of 170 entries, the last one of fewer: entries | checksum u64, seeded with the page's number + 1
//! entry: hash u128 | at u64, ms since 1970; by ascending hash
//! ```
//! Each page has its checksum, so that a large file can be searched on disk.

use super::TombstoneSet;
use crate::disk::Disk;
use crate::disk::{corrupt, io_error, other_format};
use crate::encoding::bytes::{array, u32_at, u64_at};
use crate::identity::{Hex64, Identity};
use idmatch_model::SeenAt;
use idmatch_store::Result;
use serde::{Deserialize, Serialize};
use std::path::Path;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"IDMERA\r\n";
const FORMAT: u32 = 2;
const HEADER_BYTES: usize = 72;
const HEADER_SUM_AT: usize = 64;
const ENTRY_BYTES: usize = 24;
const PAGE_ENTRIES: usize = 170;
const SUM_BYTES: usize = 8;
/// Erasures. Delete marks, the other kind, are not written yet.
const KIND_ERASURES: u8 = 0;

/// The owner of the tombstones in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TombstoneOwner {
    pub(crate) store: Identity,
    pub(crate) table: Identity,
}

/// The entry of a tombstone file in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TombstoneFile {
    /// Its name in the folder of segments.
    pub(crate) file: String,
    pub(crate) count: u64,
    /// The checksum of the whole file.
    pub(crate) sum: Hex64,
}

impl TombstoneFile {
    /// Reads the file.
    ///
    /// # Errors
    /// `Io`; `Corrupt`, also for another file than the manifest names; `UnsupportedFormat`.
    pub(crate) fn read(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        owner: TombstoneOwner,
    ) -> Result<TombstoneSet> {
        let path = folder.join(&self.file);
        let bytes = disk.read(&path).map_err(|e| io_error("read", &path, e))?;
        let (of, set) = decode(&path, &bytes)?;
        let sum = Hex64(XxHash3_64::oneshot(&bytes));
        if (of, sum, set.len()) != (owner, self.sum, self.count) {
            let what = "these are other tombstones than the manifest names";
            return Err(corrupt(&path, 0, what));
        }
        Ok(set)
    }
}

/// Writes a file and makes it durable; its name is not durable yet.
pub(crate) fn write(
    disk: &dyn Disk,
    path: &Path,
    owner: TombstoneOwner,
    set: &TombstoneSet,
) -> Result<TombstoneFile> {
    let bytes = encode(owner, set);
    let write = || {
        let mut file = disk.create(path)?;
        file.write_all(&bytes)?;
        file.sync()
    };
    write().map_err(|e| io_error("write", path, e))?;
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(TombstoneFile { file, count: set.len(), sum: Hex64(XxHash3_64::oneshot(&bytes)) })
}

fn encode(owner: TombstoneOwner, set: &TombstoneSet) -> Vec<u8> {
    let entries = set.sorted();
    let mut out = Vec::with_capacity(HEADER_BYTES + entries.len() * (ENTRY_BYTES + 1) + SUM_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&[KIND_ERASURES, 0, 0, 0]);
    out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    out.extend_from_slice(&0u64.to_le_bytes());
    out.extend_from_slice(&owner.store.0);
    out.extend_from_slice(&owner.table.0);
    seal(&mut out, 0, 0);
    for (number, page) in (1..).zip(entries.chunks(PAGE_ENTRIES)) {
        let start = out.len();
        for (hash, at) in page {
            out.extend_from_slice(&hash.to_le_bytes());
            out.extend_from_slice(&at.millis().to_le_bytes());
        }
        seal(&mut out, start, number);
    }
    out
}

/// Appends the checksum of the bytes from `start` on.
fn seal(out: &mut Vec<u8>, start: usize, number: u64) {
    let sum = checksum(number, out.get(start..).unwrap_or_default());
    out.extend_from_slice(&sum.to_le_bytes());
}

/// The checksum of the header, number 0, or of a page. It covers the place of the page.
fn checksum(number: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(number, bytes)
}

/// Reads the bytes of a file.
pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<(TombstoneOwner, TombstoneSet)> {
    match u32_at(bytes, 8) {
        Some(format) if bytes.starts_with(&MAGIC) && format != FORMAT => {
            return Err(other_format(path, "tombstones", format, FORMAT));
        }
        Some(_) if bytes.starts_with(&MAGIC) => {}
        _ => return Err(corrupt(path, 0, "this is no tombstone file")),
    }
    let (header, pages) = bytes.split_at_checked(HEADER_BYTES).unwrap_or_default();
    let summed = header.get(..HEADER_SUM_AT).unwrap_or_default();
    if u64_at(header, HEADER_SUM_AT) != Some(checksum(0, summed)) {
        return Err(corrupt(path, 0, "the checksum of the header is wrong"));
    }
    let malformed = || corrupt(path, 0, "the header of the tombstones is malformed");
    let (owner, count) = read_header(header).ok_or_else(malformed)?;
    let (mut set, mut before) = (TombstoneSet::default(), None);
    for (number, page) in (1..).zip(pages.chunks(PAGE_ENTRIES * ENTRY_BYTES + SUM_BYTES)) {
        let offset =
            HEADER_BYTES + (number as usize - 1) * (PAGE_ENTRIES * ENTRY_BYTES + SUM_BYTES);
        let (entries, sum) =
            page.split_at_checked(page.len().saturating_sub(SUM_BYTES)).unwrap_or_default();
        if u64_at(sum, 0) != Some(checksum(number, entries)) {
            return Err(corrupt(path, offset, "the checksum of a page of tombstones is wrong"));
        }
        read_entries(entries, &mut before, &mut set)
            .ok_or_else(|| corrupt(path, offset, "the tombstones are malformed"))?;
    }
    match set.len() == count {
        true => Ok((owner, set)),
        false => Err(corrupt(path, bytes.len(), "the tombstones are fewer than the header says")),
    }
}

/// The owner of the tombstones, and their number.
fn read_header(header: &[u8]) -> Option<(TombstoneOwner, u64)> {
    let (kind, load) = (u32_at(header, 12)?, u64_at(header, 24)?);
    let owner =
        TombstoneOwner { store: Identity(array(header, 32)?), table: Identity(array(header, 48)?) };
    let is_known = kind == u32::from(KIND_ERASURES) && load == 0;
    is_known.then_some((owner, u64_at(header, 16)?))
}

fn read_entries(entries: &[u8], before: &mut Option<u128>, set: &mut TombstoneSet) -> Option<()> {
    let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
    for entry in entries {
        let hash = u128::from_le_bytes(array(entry, 0)?);
        (*before < Some(hash)).then_some(())?;
        *before = Some(hash);
        set.add(hash, SeenAt::from_millis(i64::try_from(u64_at(entry, 16)?).ok()?).ok()?);
    }
    rest.is_empty().then_some(())
}

/// The same bytes with checksums that fit, for fuzzing.
pub(crate) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.get(..HEADER_SUM_AT).unwrap_or(bytes).to_vec();
    seal(&mut out, 0, 0);
    let pages = bytes.get(HEADER_BYTES..).unwrap_or_default();
    for (number, page) in (1..).zip(pages.chunks(PAGE_ENTRIES * ENTRY_BYTES)) {
        let start = out.len();
        out.extend_from_slice(page);
        seal(&mut out, start, number);
    }
    out
}
