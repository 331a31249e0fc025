//! Write sessions: rows are staged in parts first, and committed once.
//!
//! Must not know any backend. Invariants: in a directory, nothing of a session is visible before its commit.
//! A commit is done once, and every further one returns the first outcome.

use crate::{Call, Error, ErrorFields, ErrorKind, ObservationSource, Observations, Result, Unit};
use idmatch_model::TableId;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A key has at most this many bytes.
const MAX_KEY_BYTES: usize = 128;

/// The effect of a write on the rows that the table already has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// The rows stay.
    Add,
    /// Rows that were acknowledged before the session began are removed; later rows stay.
    Replace,
}

/// A caller's name for a write: a repeat with the same key within 24 h returns the outcome of the first
/// write.
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

/// The options of a new session.
#[derive(Debug, Clone)]
pub struct NewWrite {
    /// The table. The session still writes it when it is renamed.
    pub table: TableId,
    /// The effect on the rows that the table already has.
    pub kind: WriteKind,
    /// The name of the write.
    pub key: Option<WriteKey>,
    /// The sources of the rows, for the load history.
    pub sources: Vec<String>,
    /// The processes that may also write until the session ends.
    pub sharing: Sharing,
}

/// The processes that may also write while rows are staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// No other process.
    Locked,
    /// Other processes may write the store, but do not stage in this session. A commit while another process
    /// writes fails (`Busy`), and can be repeated.
    Local,
    /// Other processes may also stage and commit this session, by [`crate::Store::resume`]. It outlives the
    /// process that has begun it.
    Shared,
}

impl NewWrite {
    /// A write that adds the rows of one load.
    pub fn load(table: TableId) -> NewWrite {
        let (key, sources) = (None, Vec::new());
        NewWrite { table, kind: WriteKind::Add, key, sources, sharing: Sharing::Locked }
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

/// The address by which other processes find a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionAddress {
    /// The table that the session writes.
    pub table: TableId,
    /// The session.
    pub session: SessionId,
}

/// `TABLE.SESSION`, both 32 lowercase hex digits.
impl fmt::Display for SessionAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}.{}", self.table.0, self.session)
    }
}

impl FromStr for SessionAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<SessionAddress> {
        let read = |text: &str| {
            let (table, session) = text.split_once('.')?;
            let [table, session] = [table, session].map(|hex| u128::from_str_radix(hex, 16).ok());
            Some(SessionAddress { table: TableId(table?), session: SessionId(session?) })
        };
        read(text).ok_or_else(|| {
            let what = "the text names no session; take the id of a session that is shared";
            Error::new(ErrorKind::InvalidArgument, what)
        })
    }
}

/// The receipt of a staged part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartReceipt {
    /// The identity of the part: random bits.
    pub id: u128,
    /// The caller's number of the part, if it has one. A commit takes the first of several parts with the
    /// same number.
    pub number: Option<u32>,
    /// Its rows.
    pub rows: u64,
    /// Rows that were rejected before they came to the part.
    pub rejected: u64,
}

/// `ID.NUMBER.ROWS.REJECTED`, all in hex digits; `NUMBER` is `-` where there is none.
impl fmt::Display for PartReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}.", self.id)?;
        match self.number {
            Some(number) => write!(f, "{number:x}")?,
            None => f.write_str("-")?,
        }
        write!(f, ".{:x}.{:x}", self.rows, self.rejected)
    }
}

impl FromStr for PartReceipt {
    type Err = Error;

    fn from_str(text: &str) -> Result<PartReceipt> {
        let read = |text: &str| {
            let mut fields = text.split('.');
            let id = u128::from_str_radix(fields.next()?, 16).ok()?;
            let number = match fields.next()? {
                "-" => None,
                number => Some(u32::from_str_radix(number, 16).ok()?),
            };
            let mut count = || u64::from_str_radix(fields.next()?, 16).ok();
            let (rows, rejected) = (count()?, count()?);
            fields.next().is_none().then_some(PartReceipt { id, number, rows, rejected })
        };
        read(text).ok_or_else(|| {
            let what = "the text is no receipt of a part; take those that staging has returned";
            Error::new(ErrorKind::InvalidArgument, what)
        })
    }
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
    /// The parts that a commit of these receipts takes: the first part of each number, and all parts without
    /// a number.
    ///
    /// # Errors
    /// `InvalidArgument` if a part is named twice, or is not staged.
    pub fn chosen(
        parts: &[PartReceipt],
        is_staged: impl Fn(u128) -> bool,
    ) -> Result<Vec<PartReceipt>> {
        let ids: BTreeSet<u128> = parts.iter().map(|part| part.id).collect();
        if ids.len() < parts.len() || !ids.iter().all(|id| is_staged(*id)) {
            let text = "a part is named twice, or is not staged in this session; commit the receipts \
                        of finished parts, each once";
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let mut numbers = BTreeSet::new();
        let is_first =
            |part: &&PartReceipt| part.number.is_none_or(|number| numbers.insert(number));
        Ok(parts.iter().filter(is_first).copied().collect())
    }
}

/// A write that is staged. It ends without a trace when it is dropped before its commit, unless it is shared.
pub trait WriteSession: Send + Sync {
    /// The address by which other processes find it, if it is shared.
    fn address(&self) -> SessionAddress;

    /// The outcome, if this session or an earlier one with the same key is committed.
    fn outcome(&self) -> Option<Committed>;

    /// Begins a part. Any number of threads stage parts at the same time. A part has a number if a repeated
    /// task may stage it twice.
    ///
    /// # Errors
    /// `Expired` if the session has ended.
    fn part(&self, number: Option<u32>) -> Result<Box<dyn PartWriter>>;

    /// Stages a source to its end, as one part, on all processors.
    ///
    /// # Errors
    /// The errors of the source; `Expired` if the session has ended; `Cancelled`.
    fn stage(
        &self,
        number: Option<u32>,
        rows: &dyn ObservationSource,
        call: &Call,
    ) -> Result<PartReceipt> {
        let mut part = self.part(number)?;
        while let Some(batch) = rows.next_batch()? {
            call.report("load", batch.len() as u64, Unit::Rows)?;
            part.add(&batch)?;
        }
        part.finish(rows.rejected())
    }

    /// All finished parts of a shared session, wherever they were staged. Once a commit has begun, the parts
    /// of that commit.
    ///
    /// # Errors
    /// `Unsupported` where the session does not know them; `Expired`, `Io`, `Corrupt`.
    fn parts(&self) -> Result<Vec<PartReceipt>> {
        let instead = "a commit of the receipts of its parts";
        let text = format!("the session does not list its parts; use {instead}");
        let fields = ErrorFields::Unsupported { instead: instead.to_owned() };
        Err(Error::new(ErrorKind::Unsupported, text).with_fields(fields))
    }

    /// Writes exactly these parts, in one publication where the store has versions. After `Busy` the commit
    /// may be repeated. A committed session returns its outcome again.
    ///
    /// # Errors
    /// `InvalidArgument` for a part that is not staged here, or for other parts than a commit that has begun
    /// already; `TableNotFound` if the table was dropped; `Expired` if the session has ended, or another
    /// session replaces the table by now; `Busy`, also while another process commits the session;
    /// `Cancelled`, `Io`.
    fn commit(&self, parts: &[PartReceipt], call: &Call) -> Result<Committed>;

    /// Ends the session without a trace, where the store has versions. In other stores written rows stay, and
    /// are safe to send again.
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

    /// Ends the part, and notes the number of its rejected rows. A part that is dropped instead leaves
    /// nothing.
    ///
    /// # Errors
    /// `Io`; `Expired` if the session has ended.
    fn finish(self: Box<Self>, rejected: u64) -> Result<PartReceipt>;
}
