//! The publications of a store: the manifest, and the versions that are made of it.
//!
//! A [`StoreVersion`] is immutable: open segments and memtables. Readers keep the version that they have, and
//! its files with it. The [`VersionSet`] has the current version; `publish` replaces it, together with the
//! manifest on disk. `catch_up` reads what other processes published, also after a crash.
//!
//! `manifest`, `table_entry`, `history` and `lock_note` are files of the store; `session_folder` has shared
//! sessions. `stored_file` and `orphans` remove files. `clock` decides whether rows may expire. Must not know
//! how rows are made, and why a version changes.

mod catch_up;
mod clock;
mod copy_of;
mod dropped;
mod file_names;
mod history;
mod lock_note;
mod manifest;
mod orphans;
mod paths;
mod publish;
mod sealed;
mod session_folder;
mod stored_file;
mod table_entry;
mod table_version;
mod version;
mod version_set;

pub(crate) use clock::Clock;
pub(crate) use copy_of::{CopyKind, CopyOf};
pub(crate) use file_names::FileNames;
pub(crate) use history::{History, HistoryEntry};
pub(crate) use lock_note::LockNote;
pub use lock_note::name_process;
pub(crate) use manifest::Manifest;
pub(crate) use paths::{
    CHECKPOINTS, JOURNAL, LOCK, SCRATCH, SEGMENTS, checkpoint_until, foreign_file, list,
    staging_lock,
};
pub(crate) use publish::same_options;
pub(crate) use session_folder::{CommitNote, PartName, SessionFolder, SessionNote};
pub(crate) use table_entry::{Fence, TableEntry};
pub(crate) use table_version::{OpenSegments, TableVersion};
pub(crate) use version::{MemtableSet, StoreVersion};
pub(crate) use version_set::{JournalPosition, JournalPositions, VersionSet};
