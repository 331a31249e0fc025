//! The load history: the committed write sessions, and the outcomes of their keys.
//!
//! It is one immutable file, which each commit writes anew. Must not know how rows are written.

use super::lock_note::program;
use super::manifest::{HistoryFile, Manifest};
use super::sealed;
use super::version_set::VersionSet;
use crate::disk::{corrupt, io_error};
use crate::identity::{Hex64, Identity};
use idmatch_model::SeenAt;
use idmatch_store::{Committed, Error, ErrorKind, Result, SessionId, WriteKey, WriteKind, now};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use twox_hash::xxhash3_128::Hasher;

const KIND: &str = "history";

/// The number of entries that stay. Entries with a key that still counts stay in any case.
const ENTRIES: usize = 1_000;

/// The number of sources that an entry names.
const SOURCES: usize = 100;

/// A repeat of a key returns its outcome for this time, in milliseconds.
const KEY_MS: u64 = 24 * 3_600_000;

/// The content of a history file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct History {
    /// Oldest first.
    entries: Vec<HistoryEntry>,
}

/// A session that was committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryEntry {
    /// The number of the entry: one more with each entry of the store.
    number: u64,
    kind: StoredKind,
    table: Identity,
    session: Identity,
    /// The hash of its key.
    key: Option<Identity>,
    /// When it was committed, in milliseconds since 1970.
    at: u64,
    /// The program that has committed it.
    who: String,
    sources: Vec<String>,
    rows: u64,
    rejected: u64,
    /// The first generation that has its rows.
    generation: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoredKind {
    Add,
    Replace,
}

impl From<WriteKind> for StoredKind {
    fn from(kind: WriteKind) -> StoredKind {
        match kind {
            WriteKind::Add => StoredKind::Add,
            WriteKind::Replace => StoredKind::Replace,
        }
    }
}

impl From<StoredKind> for WriteKind {
    fn from(kind: StoredKind) -> WriteKind {
        match kind {
            StoredKind::Add => WriteKind::Add,
            StoredKind::Replace => WriteKind::Replace,
        }
    }
}

impl HistoryEntry {
    /// A session that is about to be published.
    pub(crate) fn new(
        table: Identity,
        kind: WriteKind,
        key: Option<Identity>,
        sources: &[String],
        outcome: Committed,
    ) -> HistoryEntry {
        HistoryEntry {
            number: 0,
            kind: kind.into(),
            table,
            session: Identity(outcome.session.0.to_be_bytes()),
            key,
            at: now().millis(),
            who: program(),
            sources: sources.iter().take(SOURCES).cloned().collect(),
            rows: outcome.rows,
            rejected: outcome.rejected,
            generation: 0,
        }
    }

    /// The outcome, for a repeat of the session.
    ///
    /// # Errors
    /// `InvalidArgument` if the repeat is of another kind.
    pub(crate) fn repeated(&self, kind: WriteKind) -> Result<Committed> {
        match self.kind == kind.into() {
            true => Ok(self.outcome()),
            false => Err(Error::key_of_another_kind()),
        }
    }

    /// The outcome of the session.
    pub(crate) fn outcome(&self) -> Committed {
        let session = SessionId(u128::from_be_bytes(self.session.0));
        Committed { session, rows: self.rows, rejected: self.rejected }
    }

    fn has_key(&self, now: u64) -> bool {
        self.key.is_some() && now < self.at.saturating_add(KEY_MS)
    }
}

impl History {
    /// The newest entry of a key that still counts.
    pub(crate) fn of_key(
        &self,
        table: Identity,
        key: Identity,
        now: SeenAt,
    ) -> Option<&HistoryEntry> {
        let is_it = |entry: &&HistoryEntry| {
            entry.table == table && entry.key == Some(key) && entry.has_key(now.millis())
        };
        self.entries.iter().rev().find(is_it)
    }

    /// The entry of a session that was committed.
    pub(crate) fn of_session(&self, table: Identity, session: Identity) -> Option<&HistoryEntry> {
        let is_it = |entry: &&HistoryEntry| (entry.table, entry.session) == (table, session);
        self.entries.iter().rev().find(is_it)
    }

    /// Reads the bytes of a history file.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<(History, Hex64)> {
        sealed::unseal(KIND, path, bytes)
    }

    /// The bytes of a history file, and their checksum.
    pub(crate) fn encode(&self) -> Result<(Vec<u8>, Hex64)> {
        Ok(sealed::seal(KIND, &sealed::to_json(KIND, self)?))
    }

    fn prune(&mut self, now: u64) {
        let mut beyond = self.entries.len().saturating_sub(ENTRIES);
        self.entries.retain(|entry| {
            let stays = beyond == 0 || entry.has_key(now);
            beyond = beyond.saturating_sub(1);
            stays
        });
    }
}

impl VersionSet {
    /// The load history that a manifest names.
    ///
    /// # Errors
    /// `Io`, `Corrupt`, `UnsupportedFormat`.
    pub(crate) fn history(&self, manifest: &Manifest) -> Result<History> {
        let mut all = History::default();
        for file in &manifest.history {
            all.entries.extend(self.history_file(file)?.entries);
        }
        Ok(all)
    }

    /// A file of the load history.
    ///
    /// # Errors
    /// The errors of [`VersionSet::history`].
    pub(crate) fn history_file(&self, file: &HistoryFile) -> Result<History> {
        let path = self.segments().join(&file.file);
        let bytes = self.disk.read(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => corrupt(&path, 0, "this file of the load history is gone"),
            _ => io_error("read", &path, e),
        })?;
        let (history, sum) = History::decode(&path, &bytes)?;
        if (bytes.len() as u64, sum) != (file.bytes, file.sum) {
            return Err(corrupt(&path, 0, "this is another history than the manifest names"));
        }
        Ok(history)
    }

    /// Adds an entry to the load history of a manifest that is about to be published. A damaged history is
    /// begun anew, so that it does not prevent writing. Cost: the history is written anew, a few hundred
    /// bytes an entry.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn add_history(
        &self,
        manifest: &mut Manifest,
        entry: HistoryEntry,
        file: String,
    ) -> Result<()> {
        let mut history = match self.history(manifest) {
            Err(e) if e.kind() == ErrorKind::Corrupt => History::default(),
            read => read?,
        };
        let number = manifest.history.last().map_or(1, |file| file.last + 1);
        let generation = manifest.generation + 1;
        history.prune(entry.at);
        history.entries.push(HistoryEntry { number, generation, ..entry });
        let first = history.entries.first().map_or(number, |entry| entry.number);
        let (bytes, sum) = history.encode()?;
        let path = self.segments().join(&file);
        let write = || {
            let mut new = self.disk.create(&path)?;
            new.write_all(&bytes)?;
            new.sync()?;
            self.disk.sync_dir(&self.segments())
        };
        write().map_err(|e| io_error("write", &path, e))?;
        let bytes = bytes.len() as u64;
        manifest.history = vec![HistoryFile { file, first, last: number, bytes, sum }];
        Ok(())
    }
}

impl Manifest {
    /// The hash by which the load history names a key.
    pub(crate) fn key_hash(&self, key: &WriteKey) -> Identity {
        let hash = Hasher::oneshot_with_seed(self.seed.0, key.as_str().as_bytes());
        Identity(hash.to_be_bytes())
    }
}
