//! Settings from `cql://` addresses: where the servers are, and how requests are sent.
//!
//! `fields` has the settings as values, `address` parses an address, `options` declares each option
//! once, `values` parses the values. Must not connect to anything, nor open the named files.

mod address;
mod fields;
mod options;
mod values;

pub use address::Effective;
pub(crate) use address::name_of_consistency;
pub(crate) use fields::Tls;
pub use fields::{MatchReads, Settings};
