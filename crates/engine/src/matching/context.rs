//! The context of every step of a match.

use crate::segment::Segment;
use crate::versions::TableVersion;
use idmatch_model::Keep;
use idmatch_store::MatchQuery;
use std::sync::Arc;

/// The query and the table, and the segments of the present hash partition.
#[derive(Clone, Copy)]
pub(super) struct MatchContext<'a> {
    pub(super) segments: &'a [Arc<Segment>],
    pub(super) table: &'a TableVersion,
    pub(super) query: MatchQuery,
}

impl MatchContext<'_> {
    pub(super) fn keep(&self) -> Keep {
        self.table.row_rules.keep
    }
}
