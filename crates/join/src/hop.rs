//! The tables of a chain: the question to each, and its counts.

use idmatch_model::{Pick, Side, Window};
use idmatch_store::{Match, MatchQuery, PlanStep, Requests, TableSnapshot};
use std::sync::Arc;

/// A table that a population goes through.
#[derive(Clone)]
pub struct Hop {
    /// The table.
    pub table: Arc<dyn TableSnapshot>,
    /// The side of the pairs that the incoming identifiers are of.
    pub by: Side,
    /// The matches of an identifier that are given.
    pub pick: Pick,
    /// Only observations in this window count.
    pub window: Window,
}

impl Hop {
    /// The positional match of this hop.
    pub(crate) fn query(&self) -> MatchQuery {
        MatchQuery { by: self.by, pick: self.pick, window: self.window, positions: true }
    }
}

/// The parts of a result besides pairs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JoinOptions {
    /// Whether a population row without a match is one row, with nulls for answers and dates.
    pub keep_unmatched: bool,
    /// Whether the answers and dates of the hops before the last are columns, too.
    pub with_hops: bool,
}

/// The counts of a hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopCounts {
    /// Rows that came in: in the first hop the rows of the population, later the rows of the hop before.
    pub rows_in: u64,
    /// Of these, rows with at least one match.
    pub matched: u64,
    /// Matches: the rows that go on.
    pub rows: u64,
    /// How the identifiers were read.
    pub plan: Vec<PlanStep>,
    /// The requests to servers; `None` where there are no servers.
    pub requests: Option<Requests>,
}

impl HopCounts {
    pub(crate) fn of(matched: &dyn Match) -> HopCounts {
        let counts = matched.counts();
        HopCounts {
            rows_in: counts.population,
            matched: counts.matched,
            rows: counts.rows,
            plan: matched.plan(),
            requests: matched.requests(),
        }
    }
}
