//! Memtables: upserted rows that are in no segment yet, in both directions.
//!
//! Each direction has 256 hash partitions. A partition appends rows to one buffer. It keeps their hashes in
//! a sorted list and in a short list of recent rows, which is merged into the sorted one when it has grown.
//!
//! Readers read segments only: [`Memtable::rows_of`] and [`Memtable::rows_in`] build one in memory from the
//! requested rows.
//!
//! A row carries its commit number. Readers name the last commit that they see, so a batch is seen whole, in
//! both directions, or not at all. Must not know the journal.

use crate::encoding::rows;
use crate::encoding::{HashSeed, Packed};
use crate::hash_partition::HashPartition;
use crate::segment::{Segment, sorted};
use crate::sync::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::{RwLock, RwLockReadGuard};
use crate::tombstones::RowRules;
use idmatch_model::{SeenAt, Side};
use idmatch_store::{Call, Result};
use std::path::Path;

/// The number of a commit. Ever larger, also across processes.
pub(crate) type Commit = u64;

/// The limit of the list of recent rows: this many, and a share of the sorted list.
const RECENT_ROWS: usize = 256;
const RECENT_SHARE: usize = 32;

/// The upserted rows of one table.
pub(crate) struct Memtable {
    seed: HashSeed,
    by_id: MemtableDirection,
    by_partner_id: MemtableDirection,
    rows: AtomicU64,
    bytes: AtomicUsize,
    /// Oldest and newest date, in milliseconds.
    oldest: AtomicU64,
    newest: AtomicU64,
}

struct MemtableDirection {
    partitions: Vec<RwLock<MemtablePartition>>,
}

#[derive(Default)]
struct MemtablePartition {
    rows: Vec<u8>,
    sorted: Vec<MemtableEntry>,
    recent: Vec<MemtableEntry>,
}

/// A row: the hash of its key, its offset and its commit.
#[derive(Clone, Copy)]
struct MemtableEntry {
    hash: u64,
    at: u32,
    commit: Commit,
}

impl Memtable {
    /// A memtable whose keys are hashed with this seed.
    pub(crate) fn new(seed: HashSeed) -> Memtable {
        Memtable {
            seed,
            by_id: MemtableDirection::new(),
            by_partner_id: MemtableDirection::new(),
            rows: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            oldest: AtomicU64::new(u64::MAX),
            newest: AtomicU64::new(0),
        }
    }

    /// Adds `count` encoded rows (`id` is the key) to both directions; one thread at a time adds. `None` if
    /// the bytes are not exactly `count` rows. The readable rows before the fault are added in that case,
    /// too.
    pub(crate) fn add(&self, commit: Commit, count: u32, encoded: &[u8]) -> Option<()> {
        let mut at = 0;
        for _ in 0..count {
            let (row, next) = rows::read(encoded, at)?;
            let by_id = (row.key.hash(self.seed), commit);
            let by_partner_id = (row.value.hash(self.seed), commit);
            let bytes = self.by_id.add(by_id, row.seen_at, row.key, row.value)
                + self.by_partner_id.add(by_partner_id, row.seen_at, row.value, row.key);
            self.rows.fetch_add(1, Relaxed);
            self.bytes.fetch_add(bytes, Relaxed);
            self.oldest.fetch_min(row.seen_at.millis(), Relaxed);
            self.newest.fetch_max(row.seen_at.millis(), Relaxed);
            at = next;
        }
        (at == encoded.len()).then_some(())
    }

    /// Rows added, of any commit.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Relaxed)
    }

    /// The memory taken, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The oldest and the newest date; `None` while there are no rows.
    pub(crate) fn span(&self) -> Option<(SeenAt, SeenAt)> {
        let date = |millis: &AtomicU64| {
            SeenAt::from_millis(i64::try_from(millis.load(Relaxed)).ok()?).ok()
        };
        Some((date(&self.oldest)?, date(&self.newest)?)).filter(|_| self.rows() > 0)
    }

    /// The rows of the keys of a partition with some hashes, which come sorted, up to a commit; `None` if
    /// there are none.
    pub(crate) fn rows_of(
        &self,
        side: Side,
        partition: HashPartition,
        hashes: impl Iterator<Item = u64>,
        (row_rules, last): (&RowRules, Commit),
    ) -> Result<Option<Segment>> {
        let mut found = Vec::new();
        {
            let rows = self.direction(side).read(partition);
            let mut before = None;
            for hash in hashes {
                // Keys that share a hash are copied together, so that each row is copied once.
                if before != Some(hash) {
                    rows.copy_hash(hash, last, &mut found);
                }
                before = Some(hash);
            }
        }
        segment(side, partition, &found, row_rules)
    }

    /// All rows of a partition, up to a commit; `None` if there are none.
    pub(crate) fn rows_in(
        &self,
        side: Side,
        partition: HashPartition,
        (row_rules, last): (&RowRules, Commit),
    ) -> Result<Option<Segment>> {
        let mut found = Vec::new();
        self.copy_rows(side, partition, last, &mut found);
        segment(side, partition, &found, row_rules)
    }

    /// Appends the rows of a partition, up to a commit.
    pub(crate) fn copy_rows(
        &self,
        side: Side,
        partition: HashPartition,
        last: Commit,
        out: &mut Vec<u8>,
    ) {
        let rows = self.direction(side).read(partition);
        let newest = rows.sorted.iter().chain(&rows.recent).map(|entry| entry.commit).max();
        if newest.is_none_or(|newest| newest <= last) {
            out.extend_from_slice(&rows.rows);
            return;
        }
        for entry in rows.sorted.iter().chain(&rows.recent) {
            if entry.commit <= last
                && let Some((_, next)) = rows::read(&rows.rows, entry.at as usize)
            {
                out.extend_from_slice(rows.rows.get(entry.at as usize..next).unwrap_or_default());
            }
        }
    }

    fn direction(&self, side: Side) -> &MemtableDirection {
        match side {
            Side::Id => &self.by_id,
            Side::PartnerId => &self.by_partner_id,
        }
    }
}

fn segment(
    side: Side,
    partition: HashPartition,
    found: &[u8],
    row_rules: &RowRules,
) -> Result<Option<Segment>> {
    if found.is_empty() {
        return Ok(None);
    }
    let prefix = (HashPartition::BITS, partition.first_hash());
    let sorted = sorted(found, row_rules, side, prefix, &Call::default())?;
    sorted.in_memory(Path::new("(memtable)"))
}

impl MemtablePartition {
    /// Bytes taken, with the capacity for later rows.
    fn memory(&self) -> usize {
        let entries = self.sorted.capacity() + self.recent.capacity();
        self.rows.capacity() + entries * size_of::<MemtableEntry>()
    }

    fn copy_hash(&self, hash: u64, last: Commit, out: &mut Vec<u8>) {
        let first = self.sorted.partition_point(|entry| entry.hash < hash);
        let sorted = self.sorted.get(first..).unwrap_or_default();
        let same = sorted.iter().take_while(|entry| entry.hash == hash);
        for entry in same.chain(self.recent.iter().filter(|entry| entry.hash == hash)) {
            if entry.commit <= last
                && let Some((_, next)) = rows::read(&self.rows, entry.at as usize)
            {
                out.extend_from_slice(self.rows.get(entry.at as usize..next).unwrap_or_default());
            }
        }
    }
}

impl MemtableDirection {
    fn new() -> MemtableDirection {
        MemtableDirection {
            partitions: (0..HashPartition::COUNT).map(|_| RwLock::default()).collect(),
        }
    }

    fn read(&self, partition: HashPartition) -> RwLockReadGuard<'_, MemtablePartition> {
        static EMPTY: RwLock<MemtablePartition> = RwLock::new(MemtablePartition {
            rows: Vec::new(),
            sorted: Vec::new(),
            recent: Vec::new(),
        });
        let partition = self.partitions.get(usize::from(partition.0)).unwrap_or(&EMPTY);
        partition.read()
    }

    /// Adds a row; returns by how many bytes the memory grew.
    fn add(
        &self,
        (hash, commit): (u64, Commit),
        seen_at: SeenAt,
        key: Packed<'_>,
        value: Packed<'_>,
    ) -> usize {
        let Some(partition) = self.partitions.get(usize::from(HashPartition::of(hash).0)) else {
            return 0;
        };
        let mut partition = partition.write();
        let partition = &mut *partition;
        let before = partition.memory();
        let at = partition.rows.len();
        rows::push(&mut partition.rows, seen_at, key, value);
        partition.recent.push(MemtableEntry { hash, at: at as u32, commit });
        if partition.recent.len() >= RECENT_ROWS + partition.sorted.len() / RECENT_SHARE {
            partition.recent.sort_unstable_by_key(|entry| entry.hash);
            partition.sorted.append(&mut partition.recent);
            // Two sorted runs: merged in one pass.
            partition.sorted.sort_by_key(|entry| entry.hash);
        }
        partition.memory().saturating_sub(before)
    }
}
