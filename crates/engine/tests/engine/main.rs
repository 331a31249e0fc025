//! What the embedded engine promises, asked from outside: through [`idmatch_engine::EngineStore`], its disk,
//! and the bytes of its files.
//!
//! One program for all of these tests, because some of them start it again as another
//! process, and because it is linked once.
#![allow(clippy::disallowed_methods, reason = "tests make and harm files themselves")]

mod background;
mod calls;
mod catalog;
mod catalog_model;
mod checkpoints;
mod common;
mod compaction;
mod conformance;
mod copy;
mod corruption;
mod erasure;
mod error_fields;
mod faults;
mod format;
mod format_json;
mod frozen;
mod full_disk;
mod fuzz_regressions;
mod golden;
mod handles;
mod history;
mod identities;
mod kill;
mod kill_all;
mod later_formats;
mod later_formats_of_writes;
mod network;
mod orders;
mod positions;
mod power;
mod power_tables;
mod properties;
mod ranges;
mod readers;
mod recover;
mod removal;
mod repair;
mod retention;
mod sessions;
mod sessions_faults;
mod shared_sessions;
mod snapshots;
mod soak;
mod stops;
mod upserts;
mod versions;
mod waits;
