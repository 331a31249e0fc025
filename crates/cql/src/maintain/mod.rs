//! Keeps tables in order: compares and repairs their directions, changes their retention, purges hidden rows,
//! removes dropped tables.

pub(crate) mod dropped;
pub(crate) mod purge;
pub(crate) mod repair;
pub(crate) mod retention;
pub(crate) mod verify;
