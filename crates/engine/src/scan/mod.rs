//! Reading all of a table, key by key in the order of the hash.
//!
//! [`for_each_key`] merges all segments and memtables of a hash partition. Scans, the statistics and
//! verification use it. Must not know the use of the rows.

mod distinct;
mod export;
mod key_iterator;

pub(crate) use distinct::{distinct, distinct_at_most};
pub(crate) use export::{export, range_of_id};
pub(crate) use key_iterator::{for_each_key, for_each_observation};
