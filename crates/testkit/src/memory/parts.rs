//! The staged parts of sessions of the reference. Must not know what a session does.

use super::table::StagedRow;
use idmatch_store::locks::Mutex;
use idmatch_store::{Committed, PartReceipt, WriteKey, WriteKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A session that any handle may go on with.
#[derive(Clone)]
pub(super) struct MemorySharedSession {
    pub(super) kind: WriteKind,
    pub(super) key: Option<WriteKey>,
    pub(super) parts: Arc<Mutex<StagedParts>>,
}

/// The parts of a session.
#[derive(Default)]
pub(super) struct StagedParts {
    pub(super) staged: BTreeMap<u128, (PartReceipt, Vec<StagedRow>)>,
    pub(super) outcome: Option<Committed>,
    pub(super) has_ended: bool,
}
