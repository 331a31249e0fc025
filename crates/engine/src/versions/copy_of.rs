//! What a copy of a store says of its origin. Must not know how copies are made.

use serde::{Deserialize, Serialize};

/// What a copy was made of; times in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CopyOf {
    pub(crate) kind: CopyKind,
    pub(crate) generation: u64,
    pub(crate) at: u64,
    pub(crate) until: Option<u64>,
    /// It has all erasures up to then.
    pub(crate) erasures_until: u64,
}

/// What kind of copy a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CopyKind {
    Backup,
    Checkpoint,
}
