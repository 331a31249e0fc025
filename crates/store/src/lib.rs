//! The interface of a store, in every backend: [`Store`], [`Snapshot`], [`TableSnapshot`] and [`Admin`],
//! their errors, and the way Arrow batches become observations.
//!
//! Must not know any backend, file format or network. Arrow batches are the only bulk interface: a
//! [`BatchSource`] goes in, a [`MatchSink`] receives the results. Rows are judged here, so that a backend
//! gets [`Observations`].
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod admin;
mod answers;
mod background;
mod call;
mod clock;
mod copy;
mod count;
mod error;
mod figures;
mod ingest;
pub mod locks;
mod matching;
mod metrics;
mod read_only;
mod row_numbers;
mod row_states;
mod scan;
mod session;
mod spilled_batches;
mod table;
mod timings;
mod traits;
mod version;

pub use admin::Admin;
pub use answers::{Answers, Lookup};
pub use background::{BackgroundError, BackgroundErrors};
pub use call::{Call, EndCheck, Progress, ProgressSink, Unit};
pub use clock::now;
pub use copy::{Copied, CopyOptions, Sum, copy_table};
pub use count::count;
pub use error::{Error, ErrorFields, ErrorKind, Result};
pub use figures::{
    Checkpoint, Counting, Distinct, Durability, Erased, Erasures, Finding, Repaired, Status,
    TableStats,
};
pub use ingest::{
    BatchSource, IdColumn, Ingest, JudgedPopulation, NoRejects, ObservationSource, Observations,
    OneObservation, Reject, RejectSink, SourceBatch, population_ids, stored_rows,
};
pub use matching::{
    Match, MatchCounts, MatchLane, MatchQuery, MatchSink, PlanStep, Requests, UnmatchedReason,
    match_schema, not_positional,
};
pub use metrics::{CallKind, Calls, Opened, durations, exposition, registry};
pub use read_only::ReadOnly;
pub use row_numbers::{RowNumbers, RowRun};
pub use row_states::RowStates;
pub use scan::{Columns, RowBatch, RowLane, SCAN_RANGES, ScanQuery, ScanRanges};
pub use session::{
    Committed, NewWrite, PartReceipt, PartWriter, SessionAddress, SessionId, Sharing, WriteKey,
    WriteKind, WriteSession,
};
pub use spilled_batches::{SpilledBatch, SpilledBatches};
pub use table::{OpenTables, Table, admin};
pub use timings::{Span, Stage, Timings};
pub use traits::{Snapshot, Store, TableSnapshot};
pub use version::{ScanSplit, Version};
