//! What a store publishes: the manifest, and the versions that are made of it.
//!
//! A [`Version`] is immutable: open segments and memtables. Readers keep the one they have. The [`VersionSet`]
//! has the current one and replaces it, together with the manifest on disk. `catch_up` reads what other
//! processes published, also after a crash. Must not know who writes, and why a version changes.

mod catch_up;
mod file_names;
mod manifest;
mod orphans;
mod paths;
mod version;
mod version_set;

pub(crate) use file_names::FileNames;
pub(crate) use manifest::{Manifest, TableEntry};
pub(crate) use paths::{JOURNAL, LOCK, SEGMENTS, foreign_file, list};
pub(crate) use version::{MemtableSet, OpenSegments, TableVersion, Version};
pub(crate) use version_set::{JournalPositions, VersionSet};
