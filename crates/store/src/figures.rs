//! Values about operations besides rows: durability, findings, counts. Must not know who computes them.

use crate::{BackgroundError, Error, ErrorKind, Result};
use idmatch_model::{ErasureKey, SeenAt, TableName};
use std::path::PathBuf;
use std::time::Duration;

/// The meaning of an acknowledgement of an upsert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Durability {
    /// It is durable.
    #[default]
    Always,
    /// It is durable within this time. A failure of power or system may lose writes that were acknowledged
    /// less than this time before. A failure of the process loses nothing.
    Interval(Duration),
}

/// A fault that a check has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file, or another place, that has the fault.
    pub place: String,
    /// The fault.
    pub problem: String,
}

/// The rows that an erasure has hidden, direction by direction: they were visible before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Erased {
    /// Pairs, or observations with `keep="all"`, found by their id.
    pub by_id: u64,
    /// The same, found by their partner_id.
    pub by_partner_id: u64,
    /// The checkpoints in the folder of the store that still show some of the erased targets, even where the
    /// store itself no longer had them. Checkpoints that cannot be read are here, too, and checkpoints that
    /// were not searched because the call has ended.
    pub checkpoints: Vec<Checkpoint>,
}

/// The erasures that a table remembers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erasures {
    /// The secret of the store, with which the targets are hashed; `None` where nothing was erased.
    pub key: Option<ErasureKey>,
    /// The hash of each target ([`ErasureKey::of`]), and the last instant that it hides.
    pub hashes: Vec<(u128, SeenAt)>,
}

impl Erasures {
    /// Refuses erasures that are useless to a table whose store has this secret.
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

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// The findings before the repair. Empty if there were none; then nothing was done.
    pub findings: Vec<Finding>,
    /// The most rows that were lost: rows that could be read in neither direction.
    pub lost_at_most: u64,
}

/// The share of a table that is read for figures about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Only metadata, where there are any about rows. Servers have none, so they read a sample.
    Metadata,
    /// A share of the rows; the other rows are taken to be alike.
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
    /// Whether these are exact. Inexact numbers from metadata are sums over segments that overlap, and so
    /// upper limits.
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
    /// Upserted rows that are not in segments yet. They are counted in `rows`.
    pub memtable_rows: u64,
    /// The memory of these rows.
    pub memtable_bytes: u64,
    /// Bytes that compactions in the background have yet to rewrite.
    pub pending_compaction_bytes: u64,
    /// Tombstones of the table.
    pub erasures: u64,
    /// The oldest date stored.
    pub oldest: Option<SeenAt>,
    /// The newest date stored.
    pub newest: Option<SeenAt>,
    /// Distinct identifiers and pairs.
    pub distinct: Distinct,
    /// The most rows of a key in one segment; a key may have more rows in all segments together. On servers,
    /// the most rows of a key in the partitions that were read. `None` where there are no such rows.
    pub largest_key_rows: Option<u64>,
    /// The rows that the table was made for, where its layout depends on them.
    pub expected_rows: Option<u64>,
}

/// A version of a store for readers in other processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its place: a store that is only read.
    pub path: PathBuf,
    /// The time at which it was made.
    pub at: SeenAt,
    /// The time from which it may be removed.
    pub until: SeenAt,
    /// Bytes of files that only it still has.
    pub bytes: u64,
}

/// The state of a store, besides its tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Bytes of files that only open snapshots and running reads still need.
    pub pinned_bytes: u64,
    /// The time since the oldest version that is still read was replaced by another version.
    pub oldest_pinned: Option<Duration>,
    /// Whether the store is a checkpoint of another one, which never changes.
    pub is_checkpoint: bool,
    /// Whether this process has the right to write the store; false where any process may write.
    pub is_writer: bool,
    /// The background work of this process that fails at present. Of several, the work that failed last.
    pub last_background_error: Option<BackgroundError>,
}
