//! Tombstone files.
//!
//! ```text
//! 0 magic 8 | 8 format u32 | 12 zero u32 | 16 count u64
//! 24 entries, 24 bytes each, by ascending hash: hash u128 | at u64, ms since 1970
//! then checksum u64 of all before
//! ```

use super::TombstoneSet;
use crate::disk::Disk;
use crate::disk::{corrupt, io_error};
use crate::encoding::bytes::{array, u32_at, u64_at};
use idmatch_model::SeenAt;
use idmatch_store::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"IDMERA\r\n";
const FORMAT: u32 = 1;
const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 24;
const SUM_BYTES: usize = 8;

/// What the manifest says of a tombstone file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TombstoneFile {
    /// Its name in the folder of segments.
    pub(crate) file: String,
    pub(crate) count: u64,
    /// The checksum at its end.
    pub(crate) sum: u64,
}

impl TombstoneFile {
    /// Reads the file.
    ///
    /// # Errors
    /// `Io`; `Corrupt`, also for another file than the manifest names; `UnsupportedFormat`.
    pub(crate) fn read(&self, disk: &dyn Disk, folder: &Path) -> Result<TombstoneSet> {
        let path = folder.join(&self.file);
        let bytes = disk.read(&path).map_err(|e| io_error("read", &path, e))?;
        let set = decode(&path, &bytes)?;
        let sum = bytes.len().checked_sub(SUM_BYTES).and_then(|at| u64_at(&bytes, at));
        if sum != Some(self.sum) || set.len() != self.count {
            let what = "these are other tombstones than the manifest names";
            return Err(corrupt(&path, 0, what));
        }
        Ok(set)
    }
}

/// Writes a file and makes it durable; its name is not yet.
pub(crate) fn write(disk: &dyn Disk, path: &Path, set: &TombstoneSet) -> Result<TombstoneFile> {
    let (bytes, sum) = encode(set);
    let write = || {
        let mut file = disk.create(path)?;
        file.write_all(&bytes)?;
        file.sync()
    };
    write().map_err(|e| io_error("write", path, e))?;
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(TombstoneFile { file, count: set.len(), sum })
}

/// The bytes of a file, and the checksum at their end.
fn encode(set: &TombstoneSet) -> (Vec<u8>, u64) {
    let entries = set.sorted();
    let mut out = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES + SUM_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    for (hash, at) in entries {
        out.extend_from_slice(&hash.to_le_bytes());
        out.extend_from_slice(&at.millis().to_le_bytes());
    }
    let sum = XxHash3_64::oneshot(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    (out, sum)
}

/// Reads the bytes of a file.
pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<TombstoneSet> {
    match u32_at(bytes, 8) {
        Some(format) if bytes.starts_with(&MAGIC) && format != FORMAT => {
            return Err(Error::new(
                ErrorKind::UnsupportedFormat,
                format!(
                    "{} has tombstones format {format}, this version reads format {FORMAT}; \
                     use the version of idmatch that wrote it, or a later one",
                    path.display()
                ),
            ));
        }
        Some(_) if bytes.starts_with(&MAGIC) => {}
        _ => return Err(corrupt(path, 0, "this is no tombstone file")),
    }
    let sum_at = bytes.len().saturating_sub(SUM_BYTES);
    let (body, sum) = bytes.split_at_checked(sum_at).unwrap_or_default();
    if u64_at(sum, 0) != Some(XxHash3_64::oneshot(body)) {
        return Err(corrupt(path, sum_at, "the checksum of the tombstones is wrong"));
    }
    read_entries(body).ok_or_else(|| corrupt(path, HEADER_BYTES, "the tombstones are malformed"))
}

fn read_entries(body: &[u8]) -> Option<TombstoneSet> {
    let (header, entries) = body.split_at_checked(HEADER_BYTES)?;
    let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
    let is_whole = rest.is_empty() && u64_at(header, 16)? == entries.len() as u64;
    let (mut set, mut before) = (TombstoneSet::default(), None);
    for entry in entries {
        let hash = u128::from_le_bytes(array(entry, 0)?);
        if u32_at(header, 12)? != 0 || before >= Some(hash) {
            return None;
        }
        before = Some(hash);
        set.add(hash, SeenAt::from_millis(i64::try_from(u64_at(entry, 16)?).ok()?).ok()?);
    }
    is_whole.then_some(set)
}
