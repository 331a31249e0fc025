//! Rejected rows, and the sink that receives them.

use crate::Result;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A rejected row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    /// The source of the row.
    pub source: Arc<str>,
    /// Its number in the source, counted from 1.
    pub row: u64,
    /// The first wrong column.
    pub column: &'static str,
    /// The fault of its value.
    pub reason: String,
}

/// Receives rejected rows.
pub trait RejectSink: Send {
    /// Takes some rejected rows of one batch, in order.
    fn reject(&mut self, rejects: Vec<Reject>) -> Result<()>;
}

/// For an ingest without rejected rows: a strict ingest stops at the first bad row.
pub struct NoRejects;

impl RejectSink for NoRejects {
    fn reject(&mut self, _: Vec<Reject>) -> Result<()> {
        Ok(())
    }
}

/// The bad rows of a batch, each with its first wrong column and the reason.
#[derive(Default)]
pub(super) struct BadRows {
    /// By row number in the batch.
    pub(super) rows: BTreeMap<usize, (&'static str, String)>,
}

impl BadRows {
    /// Adds a fault of a row, unless the row has one already.
    pub(super) fn add(&mut self, row: usize, column: &'static str, reason: impl ToString) {
        self.rows.entry(row).or_insert_with(|| (column, reason.to_string()));
    }
}
