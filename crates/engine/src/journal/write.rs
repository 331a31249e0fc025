//! Appends records to the journal, and syncs them.

use super::file::file;
use super::record::{FileHeader, HEADER_BYTES, record};
use crate::disk::io_error;
use crate::disk::{Disk, NewFile, create_anew};
use crate::identity::Identity;
use crate::sync;
use idmatch_store::{Error, Result};
use prometheus_client::metrics::histogram::Histogram;
use std::path::{Path, PathBuf};

/// A journal file that is being appended to.
pub(crate) struct JournalWriter {
    path: PathBuf,
    header: FileHeader,
    file: Box<dyn NewFile>,
    /// The bytes that are written, and the bytes of these that are durable.
    written: u64,
    durable: u64,
    /// The durations of syncs.
    durations: Histogram,
}

/// The result of an append.
pub(crate) enum Appended {
    /// The record is written, and durable if that was asked for.
    Done,
    /// The record was not written. The file must not be appended to again: the bytes after its last record
    /// are unknown.
    NotWritten(Error),
    /// The record was written, but neither it nor later records are known to be durable.
    NotSynced(Error),
}

impl JournalWriter {
    /// Begins a file, durably.
    pub(crate) fn create(
        disk: &dyn Disk,
        folder: &Path,
        header: FileHeader,
        durations: Histogram,
    ) -> Result<JournalWriter> {
        let path = file(folder, header.number);
        let begin = || {
            // A failed attempt may have left the file, with no record.
            let mut file = create_anew(disk, &path)?;
            file.write_all(&header.encode())?;
            file.sync()?;
            disk.sync_dir(folder)?;
            Ok(file)
        };
        let file = begin().map_err(|e| io_error("begin", &path, e))?;
        let written = HEADER_BYTES as u64;
        Ok(JournalWriter { path, header, file, written, durable: written, durations })
    }

    /// The file's number.
    pub(crate) fn number(&self) -> u64 {
        self.header.number
    }

    /// The file's identity.
    pub(crate) fn id(&self) -> Identity {
        self.header.id
    }

    /// The durable length of the file.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Whether all written records are durable.
    pub(crate) fn is_synced(&self) -> bool {
        self.durable == self.written
    }

    /// Appends the record of a commit, and makes it durable unless that can wait.
    pub(crate) fn append(&mut self, commit: u64, entries: &[u8], can_wait: bool) -> Appended {
        let record = record((self.number(), self.written), self.durable, commit, entries);
        if let Err(e) = self.file.write_all(&record) {
            return Appended::NotWritten(io_error("write", &self.path, e));
        }
        self.written += record.len() as u64;
        match can_wait {
            true => Appended::Done,
            false => self.sync().map_or_else(Appended::NotSynced, |()| Appended::Done),
        }
    }

    /// Makes all written records durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let began = sync::instant();
        self.file.sync().map_err(|e| io_error("sync", &self.path, e))?;
        self.durations.observe(began.elapsed().as_secs_f64());
        self.durable = self.written;
        Ok(())
    }
}
