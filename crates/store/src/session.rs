//! Write sessions: rows are staged in parts first, and committed once.
//!
//! Must not know any backend. Invariants: nothing of a session is seen before its commit, in a directory; a
//! commit is done once, and every further one returns the first outcome.

use crate::{Call, Error, ErrorKind, ObservationSource, Observations, Result, Unit};
use idmatch_model::TableId;
use std::fmt;

/// A key has at most this many bytes.
const MAX_KEY_BYTES: usize = 128;

/// What becomes of the rows that a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// They stay.
    Add,
    /// Those that were acknowledged before the session go; later ones stay.
    Replace,
}

/// A caller's name for a write: a repeat with the same key within 24 h returns the outcome of the first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteKey(String);

impl WriteKey {
    /// A key of 1 to 128 bytes.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn new(key: &str) -> Result<WriteKey> {
        match (1..=MAX_KEY_BYTES).contains(&key.len()) {
            true => Ok(WriteKey(key.to_owned())),
            false => Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("a key of a write has 1 to {MAX_KEY_BYTES} bytes, not {}", key.len()),
            )),
        }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a session is to write.
#[derive(Debug, Clone)]
pub struct NewWrite {
    /// The table, which the session follows when it is renamed.
    pub table: TableId,
    /// What becomes of the rows that it has.
    pub kind: WriteKind,
    /// Names the write.
    pub key: Option<WriteKey>,
    /// Where the rows come from, for the load history.
    pub sources: Vec<String>,
    /// Whether other processes are kept from writing until the session ends. Otherwise its commit may find one
    /// that writes (`Busy`), and can be repeated.
    pub keeps_lock: bool,
}

impl NewWrite {
    /// Rows that a table gets in one go.
    pub fn load(table: TableId) -> NewWrite {
        let (key, sources) = (None, Vec::new());
        NewWrite { table, kind: WriteKind::Add, key, sources, keeps_lock: true }
    }
}

/// The identity of a session: 128 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub u128);

impl fmt::Display for SessionId {
    /// 32 lowercase hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Says that a part is staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartReceipt {
    /// Random bits: the part.
    pub id: u128,
    /// Its rows.
    pub rows: u64,
    /// Rows that were rejected before; the caller may set it.
    pub rejected: u64,
}

/// The outcome of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The session that has written the rows.
    pub session: SessionId,
    /// Rows that it has written.
    pub rows: u64,
    /// Rows that were rejected.
    pub rejected: u64,
}

impl Committed {
    /// The outcome of a session that has written these parts.
    pub fn of(session: SessionId, parts: &[PartReceipt]) -> Committed {
        let count = |of: fn(&PartReceipt) -> u64| parts.iter().map(of).sum();
        let (rows, rejected) = (count(|part| part.rows), count(|part| part.rejected));
        Committed { session, rows, rejected }
    }
}

impl PartReceipt {
    /// The identities of these parts.
    ///
    /// # Errors
    /// `InvalidArgument` if one is named twice, or is not staged.
    pub fn ids(parts: &[PartReceipt], is_staged: impl Fn(u128) -> bool) -> Result<Vec<u128>> {
        let mut ids: Vec<u128> = parts.iter().map(|part| part.id).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.len() == parts.len() && ids.iter().all(|id| is_staged(*id)) {
            return Ok(ids);
        }
        let text = "a part is named twice, or is not staged in this session; commit the receipts of \
                    finished parts, each once";
        Err(Error::new(ErrorKind::InvalidArgument, text))
    }
}

/// A write that is staged. Ends without a trace when it is dropped before its commit.
pub trait WriteSession: Send + Sync {
    /// Its identity.
    fn id(&self) -> SessionId;

    /// The outcome, if it is committed, or if an earlier session with the same key was.
    fn outcome(&self) -> Option<Committed>;

    /// Begins a part. Parts are staged beside each other, by any number of threads.
    ///
    /// # Errors
    /// `Expired` if the session has ended.
    fn part(&self) -> Result<Box<dyn PartWriter>>;

    /// Stages a source to its end, as one part, on all processors.
    ///
    /// # Errors
    /// Those of the source; `Expired` if the session has ended; `Cancelled`.
    fn stage(&self, rows: &dyn ObservationSource, call: &Call) -> Result<PartReceipt> {
        let mut part = self.part()?;
        while let Some(batch) = rows.next_batch()? {
            call.report("load", batch.len() as u64, Unit::Rows)?;
            part.add(&batch)?;
        }
        part.finish()
    }

    /// Writes exactly these parts, in one publication where the store has versions. After `Busy` it
    /// may be repeated. A committed session returns its outcome again.
    ///
    /// # Errors
    /// `InvalidArgument` for a part that is not staged here; `TableNotFound` if the table was dropped;
    /// `Expired` if the session has ended, or another one replaces the table by now; `Busy`, `Cancelled`, `Io`.
    fn commit(&self, parts: &[PartReceipt], call: &Call) -> Result<Committed>;

    /// Ends the session without a trace, where the store has versions. Elsewhere what was written stays, and
    /// is safe to send again.
    ///
    /// # Errors
    /// `InvalidArgument` if it is committed.
    fn abort(&self) -> Result<()>;
}

/// A part of a session that is being staged.
pub trait PartWriter: Send {
    /// Adds rows.
    ///
    /// # Errors
    /// `Io`.
    fn add(&mut self, rows: &Observations) -> Result<()>;

    /// Ends the part. One that is dropped instead was never there.
    ///
    /// # Errors
    /// `Io`; `Expired` if the session has ended.
    fn finish(self: Box<Self>) -> Result<PartReceipt>;
}
