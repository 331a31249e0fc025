//! A store on disk: a folder with a manifest and segments.
//!
//! ```text
//! STORE/MANIFEST          the identity of the store, and its tables
//! STORE/LOCK              held by the process that writes, while it writes; says who that is
//! STORE/segments/*.tab    a table: its options, segments and tombstones; immutable
//! STORE/segments/*.seg    rows; immutable, durable before the manifest names them
//! STORE/segments/*.era    tombstones; immutable, too
//! STORE/journal/*.log     upserted rows that are in no segment yet
//! STORE/segments/*.his    the load history; immutable
//! STORE/checkpoints/*     versions for readers in other processes, each a store of hard links
//! STORE/staging/SESSION/* a shared write session, which several processes stage
//! STORE/scratch/*         files of write sessions and repairs that run (those of a match are in
//!                         TMPDIR)
//! ```
//! Readers read the manifest and keep an immutable version of it; they hold no lock. A writer takes the lock,
//! adds files and replaces the manifest. The next holder of the lock removes files that a killed writer left.
//!
//! [`EngineStore`] only delegates: writes and maintenance to `Owners`, reads to a `snapshot`.

mod backup;
mod checkpoint;
mod engine_store;
mod handle;
mod logged;
mod metrics;
mod owners;
mod session;
mod snapshot;

pub use engine_store::EngineStore;
