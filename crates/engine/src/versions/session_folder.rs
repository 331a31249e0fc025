//! The folders of shared sessions, `staging/SESSION/`.
//!
//! `SESSION` says what the session writes, `*.part` are its parts, and `COMMIT` names the parts that its
//! commit takes. A folder without `SESSION` is no session any more: its removal begins with that file. Must
//! not know the content of a part. Invariant: a process that writes `COMMIT`, or removes the folder, holds
//! the lock file of the session.

use super::history::StoredKind;
use super::lock_note::program;
use super::paths::{STAGING, list, staging_lock};
use super::{VersionSet, sealed};
use crate::disk::{Disk, Lock, create_anew, io_error, read_if_there};
use crate::identity::Identity;
use idmatch_store::{ErrorKind, NewWrite, PartReceipt, Result, Sharing, now};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

const SESSION: &str = "SESSION";
const COMMIT: &str = "COMMIT";
const SESSION_KIND: &str = "session";
const COMMIT_KIND: &str = "commit";

/// A session is kept for this time after its newest part, in milliseconds.
const KEEP_MS: u64 = 24 * 3_600_000;

/// The table, the kind and the options of a session: the content of `SESSION`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionNote {
    pub(crate) store: Identity,
    pub(crate) session: Identity,
    pub(crate) table: Identity,
    pub(crate) kind: StoredKind,
    /// The hash of its key.
    pub(crate) key: Option<Identity>,
    pub(crate) sources: Vec<String>,
    /// The program that has begun it.
    pub(crate) who: String,
    /// When it was begun, in milliseconds since 1970.
    pub(crate) at: u64,
}

/// The parts that a commit takes: the content of `COMMIT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommitNote {
    pub(crate) session: Identity,
    pub(crate) parts: Vec<CommittedPart>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommittedPart {
    part: Identity,
    number: Option<u32>,
    rows: u64,
    rejected: u64,
}

impl From<&PartReceipt> for CommittedPart {
    fn from(receipt: &PartReceipt) -> CommittedPart {
        let PartReceipt { id, number, rows, rejected } = *receipt;
        CommittedPart { part: Identity(id.to_be_bytes()), number, rows, rejected }
    }
}

impl From<&CommittedPart> for PartReceipt {
    fn from(part: &CommittedPart) -> PartReceipt {
        let CommittedPart { part, number, rows, rejected } = *part;
        PartReceipt { id: u128::from_be_bytes(part.0), number, rows, rejected }
    }
}

impl SessionNote {
    /// A session that begins now.
    pub(crate) fn new(
        (store, session): (Identity, Identity),
        write: NewWrite,
        key: Option<Identity>,
    ) -> SessionNote {
        let NewWrite { table, kind, sources, .. } = write;
        let (who, at) = (program(), now().millis());
        let (table, kind) = (table.into(), kind.into());
        SessionNote { store, session, table, kind, key, sources, who, at }
    }

    /// The options with which the session was begun.
    pub(crate) fn new_write(&self) -> NewWrite {
        NewWrite {
            table: self.table.into(),
            kind: self.kind.into(),
            key: None,
            sources: self.sources.clone(),
            sharing: Sharing::Shared,
        }
    }

    /// Reads the bytes of `SESSION`.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<SessionNote> {
        Ok(sealed::unseal(SESSION_KIND, path, bytes)?.0)
    }

    /// The bytes of `SESSION`.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        Ok(sealed::seal(SESSION_KIND, &sealed::to_json(SESSION_KIND, self)?).0)
    }
}

impl CommitNote {
    /// Whether the commit takes these parts.
    pub(crate) fn has(&self, parts: &[PartReceipt]) -> bool {
        let ids = |parts: &mut dyn Iterator<Item = Identity>| parts.collect::<BTreeSet<_>>();
        let theirs = &mut parts.iter().map(|part| Identity(part.id.to_be_bytes()));
        ids(&mut self.parts.iter().map(|part| part.part)) == ids(theirs)
    }

    /// Reads the bytes of `COMMIT`.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<CommitNote> {
        Ok(sealed::unseal(COMMIT_KIND, path, bytes)?.0)
    }

    /// The bytes of `COMMIT`.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        Ok(sealed::seal(COMMIT_KIND, &sealed::to_json(COMMIT_KIND, self)?).0)
    }
}

/// The name of a part that is whole: `PART-TIME-NUMBER.part`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartName {
    pub(crate) id: Identity,
    /// When it was finished, in milliseconds since 1970.
    at: u64,
    pub(crate) number: Option<u32>,
}

impl PartName {
    /// The name of a part that is finished now.
    pub(crate) fn now(id: Identity, number: Option<u32>) -> PartName {
        PartName { id, at: now().millis(), number }
    }

    fn parse(name: &str) -> Option<PartName> {
        let mut fields = name.strip_suffix(".part")?.split('-');
        let id = Identity::try_from(fields.next()?.to_owned()).ok()?;
        let at = fields.next()?.parse().ok()?;
        let number = match fields.next()? {
            "x" => None,
            number => Some(number.parse().ok()?),
        };
        fields.next().is_none().then_some(PartName { id, at, number })
    }
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PartName { id, at, number } = self;
        let number = number.map_or("x".to_owned(), |number| number.to_string());
        write!(f, "{id:?}-{at:013}-{number}.part")
    }
}

/// The folder of a session.
#[derive(Debug, Clone)]
pub(crate) struct SessionFolder {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) id: Identity,
    pub(crate) path: PathBuf,
}

impl SessionFolder {
    /// Makes the folder, durably. The caller holds the writer lock: another holder might remove the folder.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn make(&self, note: &SessionNote) -> Result<()> {
        self.disk.create_dir(&self.path).map_err(|e| io_error("make", &self.path, e))?;
        self.put(SESSION, &note.encode()?)?;
        let all = self.path.parent().unwrap_or(&self.path);
        let sync = [all, all.parent().unwrap_or(all)];
        sync.iter().try_for_each(|folder| {
            self.disk.sync_dir(folder).map_err(|e| io_error("sync", folder, e))
        })
    }

    /// The note of the session; `None` if there is no such session.
    ///
    /// # Errors
    /// `Io`, `Corrupt`, `UnsupportedFormat`.
    pub(crate) fn note(&self) -> Result<Option<SessionNote>> {
        self.read(SESSION, SessionNote::decode)
    }

    /// The parts that its commit takes; `None` before it has begun.
    ///
    /// # Errors
    /// The errors of [`SessionFolder::note`].
    pub(crate) fn commit_note(&self) -> Result<Option<CommitNote>> {
        self.read(COMMIT, CommitNote::decode)
    }

    /// Fails for a commit of a later format: its own version ends the session.
    ///
    /// # Errors
    /// `UnsupportedFormat`.
    pub(crate) fn check_commit_format(&self) -> Result<()> {
        match self.commit_note() {
            Err(e) if e.kind() == ErrorKind::UnsupportedFormat => Err(e),
            _ => Ok(()),
        }
    }

    /// Notes the parts that a commit takes, durably.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn begin_commit(&self, parts: &[PartReceipt]) -> Result<()> {
        let parts = parts.iter().map(CommittedPart::from).collect();
        self.put(COMMIT, &CommitNote { session: self.id, parts }.encode()?)
    }

    /// The parts that are whole, in the order in which they were finished.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn parts(&self) -> Result<Vec<PartName>> {
        let names = list(&*self.disk, &self.path)?;
        let mut parts: Vec<_> = names.iter().filter_map(|name| PartName::parse(name)).collect();
        parts.sort_by_key(|part| (part.at, part.id));
        Ok(parts)
    }

    /// The lock that a commit or a removal holds; `None` if it is held already, in this process or elsewhere.
    ///
    /// # Errors
    /// `NotFound` if the folder is gone.
    pub(crate) fn try_lock(&self) -> io::Result<Option<Box<dyn Lock>>> {
        self.disk.try_lock(&self.path.join(staging_lock(self.id)))
    }

    /// Removes the session. The lock is held.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove(&self) -> Result<()> {
        let gone = |done: io::Result<()>| match done {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(|e| io_error("remove", &self.path, e)),
        };
        gone(self.disk.remove(&self.path.join(SESSION)))?;
        gone(self.disk.remove_dir_all(&self.path))
    }

    fn read<T>(&self, name: &str, decode: fn(&Path, &[u8]) -> Result<T>) -> Result<Option<T>> {
        let path = self.path.join(name);
        let bytes = read_if_there(&*self.disk, &path)?;
        bytes.map(|bytes| decode(&path, &bytes)).transpose()
    }

    /// Writes a file whole or not at all, durably.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let (path, new) = (self.path.join(name), self.path.join(format!("{name}.new")));
        let write = || {
            let mut file = create_anew(&*self.disk, &new)?;
            file.write_all(bytes)?;
            file.sync()?;
            self.disk.rename(&new, &path)?;
            self.disk.sync_dir(&self.path)
        };
        write().map_err(|e| io_error("write", &path, e))
    }

    /// The time until which the session stays, in milliseconds since 1970; 0 for a folder that is no session.
    fn until(&self) -> Result<u64> {
        let begun = match self.note() {
            Ok(Some(note)) => note.at,
            Ok(None) => return Ok(0),
            // A later version decides about its sessions.
            Err(e) if e.kind() == ErrorKind::UnsupportedFormat => return Err(e),
            // The note cannot be read. The parts stay for their time, so that a person can look at them.
            Err(_) => 0,
        };
        self.check_commit_format()?;
        let newest = self.parts()?.last().map_or(begun, |part| part.at.max(begun));
        Ok(newest.saturating_add(KEEP_MS))
    }
}

impl VersionSet {
    /// The folder of a session, whether it is there or not.
    pub(crate) fn session_folder(&self, id: Identity) -> SessionFolder {
        let path = self.root.join(STAGING).join(format!("{id:?}"));
        SessionFolder { disk: self.disk.clone(), id, path }
    }

    /// All shared sessions.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn shared_sessions(&self) -> Result<Vec<SessionFolder>> {
        let names = list(&*self.disk, &self.root.join(STAGING))?;
        let ids = names.into_iter().filter_map(|name| Identity::try_from(name).ok());
        Ok(ids.map(|id| self.session_folder(id)).collect())
    }

    /// Removes sessions whose time is over. Best effort: the next writer does it again.
    pub(crate) fn remove_old_sessions(&self) {
        for folder in self.shared_sessions().unwrap_or_default() {
            if folder.until().is_ok_and(|until| until < now().millis())
                && let Ok(Some(_lock)) = folder.try_lock()
                && let Err(e) = folder.remove()
            {
                warn!(error = e.chain(), "a session stays: the next writer removes it");
            }
        }
    }
}
