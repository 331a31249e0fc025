//! What a match asks, and what is known of the table while it is answered.

use super::plan::Chooser;
use crate::context::TableContext;
use crate::schema::metadata_cache::{TableMetadata, Visible};
use idmatch_store::MatchQuery;
use std::sync::Arc;

/// What is asked, and what is known while it is answered.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) context: Arc<TableContext>,
    pub(super) metadata: Arc<TableMetadata>,
    pub(super) query: MatchQuery,
    pub(super) visible: Visible,
}

impl Question {
    pub(super) fn chooser(&self) -> Chooser<'_> {
        let (reads, rows) =
            (self.context.client.settings().match_reads, self.context.bucket_rows(self.query.by));
        Chooser { reads, rows }
    }
}
