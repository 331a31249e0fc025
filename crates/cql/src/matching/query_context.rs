//! A match's query, with the metadata of the table that it uses.

use super::plan::ReadPlanner;
use crate::context::TableContext;
use crate::schema::metadata_cache::{TableMetadata, VisibleRange};
use idmatch_store::MatchQuery;
use std::sync::Arc;

/// The query, and the metadata that answers it.
#[derive(Clone)]
pub(super) struct QueryContext {
    pub(super) context: Arc<TableContext>,
    pub(super) metadata: Arc<TableMetadata>,
    pub(super) query: MatchQuery,
    pub(super) visible: VisibleRange,
}

impl QueryContext {
    pub(super) fn planner(&self) -> ReadPlanner<'_> {
        let (reads, rows) =
            (self.context.client.settings().match_reads, self.context.bucket_rows(self.query.by));
        ReadPlanner { reads, rows }
    }
}
