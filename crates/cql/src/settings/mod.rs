//! Settings from `cql://` addresses: where the servers are, and how requests are sent.
//!
//! `options` has the names, `values` parses the values. Must not connect to anything, nor open the
//! named files.

mod address;
mod login;
mod options;
mod values;

pub use address::{Effective, MatchReads, Settings};
pub(crate) use address::{Tls, name_of_consistency};
