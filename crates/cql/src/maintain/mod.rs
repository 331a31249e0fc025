//! Keeps a table in order: compares and repairs its directions, changes its retention, purges
//! hidden rows.

pub(crate) mod purge;
pub(crate) mod repair;
pub(crate) mod retention;
pub(crate) mod verify;
