//! Recovery of a store that does not open, and repair of a table in a store that opens.
//!
//! Both rewrite tables from the rows that can still be read. Nothing is lost without the caller's consent.
//! After a crash a store opens by itself: `versions::catch_up` reads the journal. Must not know how damage came
//! about.

mod readable_rows;
mod recover;
mod repair;
mod rewrite;

pub(crate) use recover::Recovery;
pub(crate) use repair::Repair;
