//! The file of a part that one process stages and another one commits.
//!
//! ```text
//!  0 magic 8 | 8 format u32 | 12 four zeros | 16 store 16 | 32 session 16 | 48 part 16 | 64 checksum u64 of 0..64
//! 72 blocks: length u32, at most 4 MiB | rows | checksum u64 of length and rows, seeded with the block's number + 1
//!    end: zero u32 | rows u64 | rejected u64 | checksum u64 of these, seeded with the number of blocks + 1
//! ```
//! Rows are encoded as in [`crate::encoding::rows`], with the id as key. The file appears under its name when
//! it is whole and durable. Must not know the use of the rows.

use crate::disk::{NewFile, OpenFile, io_error, other_format, place};
use crate::encoding::Packer;
use crate::encoding::bytes::{array, u32_at, u64_at};
use crate::encoding::rows::{self, Row};
use crate::identity::Identity;
use crate::versions::{PartName, SessionFolder};
use idmatch_store::{Error, ErrorKind, Observations, PartReceipt, Result};
use std::io;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"IDMPRT\r\n";
const FORMAT: u32 = 2;
const HEADER_BYTES: usize = 72;
const HEADER_SUM_AT: usize = 64;
const END_BYTES: usize = 28;
const SUM_BYTES: usize = 8;
/// Rows are written in blocks of about this size.
const BLOCK_BYTES: usize = 1 << 20;
const MAX_BLOCK_BYTES: usize = 4 << 20;

/// The owner of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PartOwner {
    pub(crate) store: Identity,
    pub(crate) session: Identity,
    pub(crate) part: Identity,
}

/// A part that is being written. If it is dropped before its end, it leaves nothing.
pub(crate) struct PartFile {
    folder: SessionFolder,
    owner: PartOwner,
    number: Option<u32>,
    path: PathBuf,
    file: Option<Box<dyn NewFile>>,
    /// The rows of the open block, after four bytes for their length.
    block: Vec<u8>,
    blocks: u64,
    rows: u64,
}

impl PartFile {
    /// Begins a part.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn new(
        folder: &SessionFolder,
        store: Identity,
        number: Option<u32>,
    ) -> Result<PartFile> {
        let owner = PartOwner { store, session: folder.id, part: Identity::random()? };
        let path = folder.path.join(format!("{:?}.new", owner.part));
        let begin = || {
            let mut file = folder.disk.create(&path)?;
            file.write_all(&header(owner))?;
            Ok(file)
        };
        let file = Some(begin().map_err(|e| failed(&path, e))?);
        let (folder, block) = (folder.clone(), vec![0; 4]);
        Ok(PartFile { folder, owner, number, path, file, block, blocks: 0, rows: 0 })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// `Io`; `Expired` if the session has ended.
    pub(crate) fn add(&mut self, batch: &Observations) -> Result<()> {
        let (mut ids, mut partner_ids) = (Packer::default(), Packer::default());
        let pairs = batch.ids.iter().zip(batch.partner_ids.iter());
        for ((id, partner_id), seen_at) in pairs.zip(&batch.seen_at) {
            rows::push(&mut self.block, *seen_at, ids.pack(id), partner_ids.pack(partner_id));
            self.rows += 1;
            if self.block.len() >= BLOCK_BYTES {
                self.write_block()?;
            }
        }
        Ok(())
    }

    /// Ends the part. From then on the store has it, durably.
    ///
    /// # Errors
    /// The errors of [`PartFile::add`].
    pub(crate) fn finish(mut self, rejected: u64) -> Result<PartReceipt> {
        if self.block.len() > 4 {
            self.write_block()?;
        }
        let mut end = vec![0; 4];
        end.extend_from_slice(&self.rows.to_le_bytes());
        end.extend_from_slice(&rejected.to_le_bytes());
        seal(&mut end, self.blocks + 1);
        self.write(&end)?;
        let name = PartName::now(self.owner.part, self.number);
        let (disk, folder) = (&*self.folder.disk, &self.folder.path);
        let mut finish = || {
            self.file.as_mut().map_or(Ok(()), |file| file.sync())?;
            disk.rename(&self.path, &folder.join(name.to_string()))?;
            disk.sync_dir(folder)
        };
        finish().map_err(|e| failed(&self.path, e))?;
        self.file = None;
        let id = u128::from_be_bytes(self.owner.part.0);
        Ok(PartReceipt { id, number: self.number, rows: self.rows, rejected })
    }

    fn write_block(&mut self) -> Result<()> {
        let len = self.block.len() as u32 - 4;
        if let Some(place) = self.block.first_chunk_mut() {
            *place = len.to_le_bytes();
        }
        self.blocks += 1;
        seal(&mut self.block, self.blocks);
        let block = std::mem::take(&mut self.block);
        self.write(&block)?;
        self.block = block;
        self.block.truncate(4);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes));
        written.map_err(|e| failed(&self.path, e))
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Best effort: the file is removed with its session in any case.
            self.folder.disk.remove(&self.path).ok();
        }
    }
}

fn header(owner: PartOwner) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    for identity in [owner.store, owner.session, owner.part] {
        out.extend_from_slice(&identity.0);
    }
    seal(&mut out, 0);
    out
}

/// Appends the checksum of all bytes, which covers their place in the file.
fn seal(out: &mut Vec<u8>, number: u64) {
    let sum = XxHash3_64::oneshot_with_seed(number, out);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// The bytes before the checksum, if the checksum fits them.
fn unsealed(bytes: &[u8], number: u64) -> Option<&[u8]> {
    let (bytes, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM_BYTES)?)?;
    (u64_at(sum, 0)? == XxHash3_64::oneshot_with_seed(number, bytes)).then_some(bytes)
}

/// A write failed. A folder that is gone is the end of the session.
fn failed(path: &Path, e: io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::NotFound => Error::session_ended(),
        _ => io_error("write", path, e),
    }
}

/// A part that is whole.
pub(crate) struct PartReader {
    path: PathBuf,
    file: Box<dyn OpenFile>,
    bytes: u64,
}

impl PartReader {
    /// Opens a part of a session of a store.
    ///
    /// # Errors
    /// `Io`; `Corrupt`, also for the part of another session; `UnsupportedFormat`.
    pub(crate) fn open(
        folder: &SessionFolder,
        store: Identity,
        name: &PartName,
    ) -> Result<PartReader> {
        let path = folder.path.join(name.to_string());
        let open = || Ok((folder.disk.open(&path)?, folder.disk.len(&path)?));
        let (file, bytes) = open().map_err(|e| io_error("read", &path, e))?;
        let owner = PartOwner { store, session: folder.id, part: name.id };
        PartReader::of((path, file, bytes), owner)
    }

    /// The part in a file of this length.
    pub(crate) fn of(
        (path, file, bytes): (PathBuf, Box<dyn OpenFile>, u64),
        owner: PartOwner,
    ) -> Result<PartReader> {
        let part = PartReader { path, file, bytes };
        match read_header(&part.path, &part.read(0, HEADER_BYTES)?)? == owner {
            true => Ok(part),
            false => Err(part.damaged(0, "this is a part of another session")),
        }
    }

    /// The error of a part with other rows than its receipt says.
    pub(crate) fn of_another_receipt(&self) -> Error {
        self.damaged(0, "this part has other rows than its receipt says")
    }

    /// The number of rows of the part, and the number of rejected rows.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub(crate) fn counts(&self) -> Result<(u64, u64)> {
        let at = self.bytes.saturating_sub(END_BYTES as u64);
        let end = self.read(at, END_BYTES)?;
        counts(&end).ok_or_else(|| self.damaged(at, "the part has no end"))
    }

    /// Calls `take` with each row, without its hash, and `check` with the number of rows of each block.
    /// Returns the number of all rows.
    ///
    /// # Errors
    /// `Io`; `Corrupt` if a byte is not as it was written.
    pub(crate) fn read_rows(
        &self,
        mut take: impl FnMut(&Row<'_>) -> Result<()>,
        check: impl Fn(u64) -> Result<()>,
    ) -> Result<u64> {
        let (mut at, mut number, mut count) = (HEADER_BYTES as u64, 1, 0);
        loop {
            let len = u32_at(&self.read(at, 4)?, 0).map_or(0, |len| len as usize);
            if len > MAX_BLOCK_BYTES {
                return Err(self.damaged(at, "a block of the part is too long"));
            }
            let bytes = self.read(at, if len == 0 { END_BYTES } else { 4 + len + SUM_BYTES })?;
            let wrong = || self.damaged(at, "a checksum of the part is wrong");
            let block = unsealed(&bytes, number).ok_or_else(wrong)?;
            at += bytes.len() as u64;
            if len == 0 {
                let is_whole = counts(&bytes).is_some_and(|(counted, _)| counted == count);
                return match is_whole && at == self.bytes {
                    true => Ok(count),
                    false => Err(self.damaged(at, "the part does not end as it was written")),
                };
            }
            let (block, mut in_block, mut next) = (block.get(4..).unwrap_or_default(), 0, 0);
            while next < block.len() {
                let malformed = || self.damaged(at, "a row of the part is malformed");
                let (row, end) = rows::read(block, next).ok_or_else(malformed)?;
                take(&row)?;
                (in_block, next) = (in_block + 1, end);
            }
            check(in_block)?;
            count += in_block;
            number += 1;
        }
    }

    fn read(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        if at + len as u64 > self.bytes {
            return Err(self.damaged(self.bytes, "the part ends too early"));
        }
        let mut bytes = vec![0; len];
        self.file.read_at(&mut bytes, at).map_err(|e| io_error("read", &self.path, e))?;
        Ok(bytes)
    }

    fn damaged(&self, at: u64, what: &str) -> Error {
        damaged(&self.path, at as usize, what)
    }
}

fn read_header(path: &Path, bytes: &[u8]) -> Result<PartOwner> {
    match u32_at(bytes, 8) {
        Some(format) if bytes.starts_with(&MAGIC) && format != FORMAT => {
            return Err(other_format(path, "a staged part of", format, FORMAT));
        }
        Some(_) if bytes.starts_with(&MAGIC) => {}
        _ => return Err(damaged(path, 0, "this is no staged part")),
    }
    let read = || {
        let header = unsealed(bytes.get(..HEADER_SUM_AT + SUM_BYTES)?, 0)?;
        let identity = |at| array(header, at).map(Identity);
        Some(PartOwner { store: identity(16)?, session: identity(32)?, part: identity(48)? })
    };
    read().ok_or_else(|| damaged(path, 0, "the checksum of the header is wrong"))
}

/// Rows and rejected rows, by the end of a part.
fn counts(end: &[u8]) -> Option<(u64, u64)> {
    (u32_at(end, 0)? == 0).then_some((u64_at(end, 4)?, u64_at(end, 12)?))
}

fn damaged(path: &Path, offset: usize, what: &str) -> Error {
    let text = format!(
        "{}, offset {offset}: {what}; nothing was committed, stage the rows of this part again in \
         another session",
        path.display()
    );
    Error::new(ErrorKind::Corrupt, text).with_fields(place(path, Some(offset)))
}

/// A part with these bytes as rows of a block, for fuzzing.
pub(crate) fn sealed(rows: &[u8]) -> Vec<u8> {
    let mut out = header(PartOwner::default());
    let mut block = (rows.len() as u32).to_le_bytes().to_vec();
    block.extend_from_slice(rows);
    seal(&mut block, 1);
    out.extend(block);
    out
}
