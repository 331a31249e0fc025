//! What operations take and give besides rows: promises, findings, counts. Must not know who computes them.

use crate::{BackgroundError, Error, ErrorKind, Result};
use idmatch_model::{ErasureKey, SeenAt, TableName};
use std::path::PathBuf;
use std::time::Duration;

/// What the acknowledgement of an upsert means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Durability {
    /// It is durable.
    #[default]
    Always,
    /// It will be, within this time: a failure of power or system may lose what was acknowledged
    /// so shortly before. A failure of the process loses nothing.
    Interval(Duration),
}

/// Something that a check found to be wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file, or another place, it is in.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}

/// What an erasure found, direction by direction: rows that were there and no longer are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Erased {
    /// Pairs, or observations with `keep="all"`, found by their id.
    pub by_id: u64,
    /// The same, found by their partner_id.
    pub by_partner_id: u64,
    /// The checkpoints in the folder of the store that still show some of what was to be erased, whether the store
    /// still had it or not; and those that cannot be read, or that were not searched because the call has ended.
    pub checkpoints: Vec<Checkpoint>,
}

/// What a table remembers of what was erased.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erasures {
    /// The secret of the store, with which the targets are hashed; none where nothing was erased.
    pub key: Option<ErasureKey>,
    /// The hash of each target ([`ErasureKey::of`]), and up to when it is hidden.
    pub hashes: Vec<(u128, SeenAt)>,
}

impl Erasures {
    /// Refuses erasures that a table whose store has this secret can make nothing of.
    ///
    /// # Errors
    /// `Differs`.
    pub fn check_key(&self, key: Option<ErasureKey>, table: &TableName) -> Result<()> {
        if self.hashes.is_empty() || self.key == key {
            return Ok(());
        }
        let text =
            format!("the erasures for table {table} are hashed with the secret of another store");
        Err(Error::new(ErrorKind::Differs, text))
    }
}

/// What a repair found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// What was wrong before; empty if nothing was, and then nothing was done.
    pub findings: Vec<Finding>,
    /// Rows that could be read in neither direction: so many at most.
    pub lost_at_most: u64,
}

/// How much of a table is read for figures about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Nothing but metadata, where there are any about rows; servers have none, so it is a sample there.
    Metadata,
    /// A share of the rows, and the others are taken to be alike.
    Sample,
    /// All rows.
    All,
}

/// Distinct identifiers and pairs, retention aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Distinct {
    /// Different ids.
    pub ids: u64,
    /// Different partner_ids.
    pub partner_ids: u64,
    /// Different pairs of the two.
    pub pairs: u64,
    /// Whether these are exact. Of metadata, they are else sums over segments that overlap: so many at most.
    pub is_exact: bool,
}

/// Figures about a table, as stored: before windows and retention.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableStats {
    /// Observations stored per direction. Several loads may store a pair more than once.
    pub rows: u64,
    /// Bytes on disk, both directions.
    pub bytes: u64,
    /// Segments, both directions.
    pub segments: u64,
    /// Of the rows, those that were upserted and are not in segments yet.
    pub memtable_rows: u64,
    /// The memory that these take.
    pub memtable_bytes: u64,
    /// Bytes that merges in the background are yet to write anew.
    pub pending_compaction_bytes: u64,
    /// Erasures remembered.
    pub erasures: u64,
    /// The oldest date stored.
    pub oldest: Option<SeenAt>,
    /// The newest date stored.
    pub newest: Option<SeenAt>,
    /// Distinct identifiers and pairs.
    pub distinct: Distinct,
    /// The most rows that a key has in one segment; it may have more in all. On servers, the most that a key has
    /// in the partitions that were read. `None` where there are no such rows.
    pub largest_key_rows: Option<u64>,
    /// How many rows the table was made for, where its layout depends on that.
    pub expected_rows: Option<u64>,
}

/// A version of a store for readers in other processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Where it is: a store that is only read.
    pub path: PathBuf,
    /// When it was made.
    pub at: SeenAt,
    /// From when on it may be removed.
    pub until: SeenAt,
    /// Bytes of files that only it still has.
    pub bytes: u64,
}

/// What a store does and keeps, besides its tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Bytes of files that only open snapshots and running reads still need.
    pub pinned_bytes: u64,
    /// How long ago the oldest version that is still read was replaced by another.
    pub oldest_pinned: Option<Duration>,
    /// Whether the store is a checkpoint of another one, which never changes.
    pub is_checkpoint: bool,
    /// Whether this process has the right to write the store; false where any process may write.
    pub is_writer: bool,
    /// The background work of this process that fails at present; the one that failed last.
    pub last_background_error: Option<BackgroundError>,
}
