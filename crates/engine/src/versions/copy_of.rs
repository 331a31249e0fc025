//! The origin of a store that is a copy. Must not know how copies are made.

use serde::{Deserialize, Serialize};

/// The origin of a copy; times in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CopyOf {
    pub(crate) kind: CopyKind,
    pub(crate) generation: u64,
    pub(crate) at: u64,
    pub(crate) until: Option<u64>,
    /// The copy has all erasures up to this time.
    pub(crate) erasures_until: u64,
}

/// The kind of copy that a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CopyKind {
    Backup,
    Checkpoint,
}
