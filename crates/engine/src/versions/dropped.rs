//! Tables that were dropped: their files stay while the journal may have rows of them. Must not know readers.

use super::table_entry::TableEntry;
use crate::identity::{Hex64, Identity};
use idmatch_model::TableName;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A table that was dropped, until it is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DroppedTable {
    pub(crate) id: Identity,
    pub(crate) name: TableName,
    pub(crate) file: String,
    pub(crate) bytes: u64,
    pub(crate) sum: Hex64,
    pub(crate) generation: u64,
    /// The newest journal file at the drop; `None` if no journal file had rows.
    pub(crate) journal: Option<u64>,
    pub(crate) at: u64,
    pub(crate) until: u64,
    /// The content of the table's file.
    #[serde(skip)]
    pub(crate) entry: Option<Arc<TableEntry>>,
}

impl DroppedTable {
    /// Whether the table is still needed: its time is not over, or the journal may have rows of it. `first`
    /// is the first journal file that is needed.
    pub(super) fn is_needed(&self, first: u64, now: u64) -> bool {
        self.until > now || self.journal.is_some_and(|journal| journal >= first)
    }
}
