//! What a copy tells while it goes on.

use crate::Result;

/// What a copy is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// One of the tables is read, to compare them.
    Comparing,
    /// Rows are sent.
    Copying,
}

/// Is told of rows that were read, by several threads; an error ends the copy.
pub type Watch<'a> = &'a (dyn Fn(Stage, u64) -> Result<()> + Sync);
