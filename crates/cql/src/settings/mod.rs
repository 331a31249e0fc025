//! What `cql://` addresses say: where the servers are, and how they are asked.
//!
//! `options` has the names, `values` reads what they are set to. Must not connect to anything, nor
//! open the files that are named.

mod address;
mod login;
mod options;
mod values;

pub use address::{Effective, MatchReads, Settings};
pub(crate) use address::{Tls, name_of_consistency};
