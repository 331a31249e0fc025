//! A write session of this process: the rows of its parts in hash partitions, and the phase of its commit.
//!
//! A session of `table.begin()` and a load have one from their begin. The commit of a shared session makes one from
//! its part files. Parts stay in memory up to a limit, and go to spill files beyond it. The commit takes the rows
//! of its parts, sorts them into segments among the files of the session (`Phase::Sorted`), and then needs the
//! writer lock. After `Busy` these segments stay until this is dropped, so the commit can be repeated.
//!
//! Must not know how a commit publishes (`bulk_loader`). Invariants: a commit takes exactly the parts that it
//! names, each once. After it has begun no part is added. The outcome is set once. The files are removed when
//! this is dropped.

use super::partition::{Partitioned, Partitioner, partition_rows};
use super::spill::Spill;
use super::staging::StagingFiles;
use crate::encoding::HashSeed;
use crate::identity::{Identity, random};
use crate::options::MemoryLimits;
use crate::segment::SegmentInfo;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering::Relaxed, Rank, RankedMutex};
use crate::tombstones::TombstoneFile;
use crate::versions::{Fence, HistoryEntry};
use crate::writer_lock::WriterGuard;
use idmatch_store::{
    Call, Committed, Error, NewWrite, ObservationSource, PartReceipt, Result, SessionAddress,
    SessionId, WriteKind,
};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A write that is staged.
pub(crate) struct StagedWrite {
    pub(super) table: Identity,
    pub(super) fence: Option<Fence>,
    pub(super) files: StagingFiles,
    kind: WriteKind,
    key: Option<Identity>,
    sources: Vec<String>,
    /// Held until the session ends, if it locks out other processes.
    pub(super) guard: Mutex<Option<Arc<WriterGuard>>>,
    limits: MemoryLimits,
    seed: HashSeed,
    pub(super) spill: Arc<Spill>,
    /// Bytes of parts that stay in memory.
    memory: AtomicUsize,
    parts: Mutex<BTreeMap<u128, Partitioned>>,
    /// Held during a commit.
    pub(super) phase: RankedMutex<Phase>,
    /// Whether parts may be added. It is read without waiting for a commit.
    pub(super) is_staging: AtomicBool,
    pub(super) outcome: OnceLock<Committed>,
}

/// The phase of a session.
pub(super) enum Phase {
    Staging,
    /// A commit has taken its parts. The phase stays so if that commit fails.
    Taken,
    Sorted(Sorted),
    Ended,
}

/// The rows of a session as segments among its own files.
pub(super) struct Sorted {
    pub(super) segments: Vec<SegmentInfo>,
    /// The outcome that the commit will return.
    pub(super) outcome: Committed,
    /// The tombstone files that were applied to the segments.
    pub(super) made_with: Vec<TombstoneFile>,
}

impl StagedWrite {
    pub(super) fn new(
        write: NewWrite,
        fence: Option<Fence>,
        key: Option<Identity>,
        (files, guard): (StagingFiles, Option<Arc<WriterGuard>>),
        (limits, seed): (MemoryLimits, HashSeed),
    ) -> StagedWrite {
        StagedWrite {
            table: write.table.into(),
            fence,
            kind: write.kind,
            key,
            sources: write.sources,
            guard: Mutex::new(guard),
            limits,
            seed,
            spill: Arc::new(Spill::new(&files)),
            files,
            memory: AtomicUsize::new(0),
            parts: Mutex::default(),
            phase: RankedMutex::new(Rank::Session, Phase::Staging),
            is_staging: AtomicBool::new(true),
            outcome: OnceLock::new(),
        }
    }

    /// The identities of the session and its table.
    pub(crate) fn address(&self) -> SessionAddress {
        let session = SessionId(u128::from_be_bytes(self.files.id.0));
        SessionAddress { table: self.table.into(), session }
    }

    /// The outcome, once it is committed.
    pub(crate) fn outcome(&self) -> Option<Committed> {
        self.outcome.get().copied()
    }

    /// A partitioner, which puts rows into a part.
    ///
    /// # Errors
    /// `Expired` if the session has ended.
    pub(crate) fn partitioner(&self) -> Result<Partitioner> {
        self.check_staging()?;
        Ok(Partitioner::new(&self.spill, self.limits.chunk_bytes, self.seed))
    }

    /// Stages a source to its end, on all processors.
    ///
    /// # Errors
    /// The errors of the source; `Expired`, `Io`, `Cancelled`.
    pub(crate) fn stage(
        &self,
        number: Option<u32>,
        source: &dyn ObservationSource,
        call: &Call,
    ) -> Result<PartReceipt> {
        self.check_staging()?;
        let (chunk_bytes, seed) = (self.limits.chunk_bytes, self.seed);
        let rows = partition_rows(&self.spill, chunk_bytes, seed, source, call)?;
        self.add_part(number, source.rejected(), rows)
    }

    /// Adds a part that is whole.
    ///
    /// # Errors
    /// `Expired` if the session has ended; `Io`.
    pub(crate) fn add_part(
        &self,
        number: Option<u32>,
        rejected: u64,
        mut part: Partitioned,
    ) -> Result<PartReceipt> {
        self.check_staging()?;
        let bytes = part.memory_bytes();
        let before = self.memory.fetch_add(bytes, Relaxed);
        if before > 0 && before + bytes > self.limits.run_bytes {
            part.spill(&self.spill)?;
            self.memory.fetch_sub(bytes, Relaxed);
        }
        let (id, rows) = (u128::from_be_bytes(random()?), part.rows());
        self.parts.lock().insert(id, part);
        Ok(PartReceipt { id, number, rows, rejected })
    }

    /// Forgets all parts.
    pub(super) fn drop_parts(&self) {
        self.parts.lock().clear();
    }

    /// The entry of the session in the load history.
    pub(super) fn history(&self, outcome: Committed) -> HistoryEntry {
        HistoryEntry::new(self.table, self.kind, self.key, &self.sources, outcome)
    }

    fn check_staging(&self) -> Result<()> {
        match self.is_staging.load(Relaxed) {
            true => Ok(()),
            false => Err(Error::session_ended()),
        }
    }

    /// Takes the rows of the parts of a commit out of the session. Returns them with the outcome of the
    /// commit.
    ///
    /// # Errors
    /// `InvalidArgument` for a part that is not staged here.
    pub(super) fn take_parts(&self, receipts: &[PartReceipt]) -> Result<(Partitioned, Committed)> {
        let mut parts = self.parts.lock();
        let chosen = PartReceipt::chosen(receipts, |id| parts.contains_key(&id))?;
        let rows = Partitioned::joined(chosen.iter().filter_map(|part| parts.remove(&part.id)));
        Ok((rows, Committed::of(self.address().session, &chosen)))
    }
}
