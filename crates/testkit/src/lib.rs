//! The shared parts of tests of backends: the in-memory reference store and the conformance runner.
//!
//! [`MemoryStore`] is the simplest store that answers right; [`conformance`] runs the cases of
//! `spec/cases` on any store; [`LogCapture`] keeps what is logged. Only tests depend on this crate. Must not know any backend.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

pub mod conformance;
mod log_capture;
mod memory;

pub use log_capture::LogCapture;
pub use memory::MemoryStore;
