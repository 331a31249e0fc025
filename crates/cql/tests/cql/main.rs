//! The backend on a real Cassandra, which `scripts/with_lab.py` starts: `make test-cql`.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]
#![allow(clippy::disallowed_methods, reason = "tests have threads and clocks of their own")]

mod catalog;
mod clients;
mod common;
mod conformance;
mod hot;
mod loads;
mod lookups;
mod matches;
mod names;
mod orders;
mod outcomes;
mod overload;
mod privacy;
mod proxy;
mod refusals;
mod retention;
mod scans;
mod sessions;
mod stops;
