//! The progress that a copy reports.

use crate::Result;

/// The stage of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A table is read, to compare both.
    Comparing,
    /// Rows are sent.
    Copying,
}

/// Called with the number of rows read, by several threads at once; an error ends the copy.
pub type Watch<'a> = &'a (dyn Fn(Stage, u64) -> Result<()> + Sync);
