//! Runs the cases of `spec/cases/` against a backend.
//!
//! The cases are data; `spec/cases/README.md` describes their format. Every case is
//! run several times: its loads as they are written, reversed, and repeated, in large
//! and small batches, with the store opened anew before the questions. The answers must
//! be the same each time.
//!
//! ```no_run
//! use idmatch_testkit::conformance::{self, Ways};
//! use idmatch_testkit::MemoryStore;
//! use std::{path::Path, sync::Arc};
//!
//! let store = Arc::new(MemoryStore::new());
//! let tally = conformance::run(Path::new("spec/cases"), Ways::ALL, &|_| Ok(store.clone()));
//! match tally {
//!     Ok(tally) => println!("{tally}"),
//!     Err(failures) => panic!("{failures}"),
//! }
//! ```

mod ask;
mod chain;
mod compare;
mod format;
mod generate;
mod input;
mod load;
mod outcome;
mod population;
mod positions;
mod run;
mod runner;
mod scan;
mod sent;
mod steps;
mod tables;
mod value;
mod ways;

pub use outcome::{Failures, Tally};
pub use run::{case_files, run, run_file, run_table_rules};
pub use runner::StoreFactory;
pub use ways::Ways;
