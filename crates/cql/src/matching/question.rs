//! What a match asks, and what is known of the table while it is answered.

use super::plan::Chooser;
use crate::context::Handle;
use crate::schema::metadata_cache::{Known, Visible};
use idmatch_store::MatchQuery;
use std::sync::Arc;

/// What is asked, and what is known while it is answered.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) handle: Arc<Handle>,
    pub(super) known: Arc<Known>,
    pub(super) query: MatchQuery,
    pub(super) visible: Visible,
}

impl Question {
    pub(super) fn chooser(&self) -> Chooser<'_> {
        let (reads, rows) =
            (self.handle.client.settings().match_reads, self.handle.bucket_rows(self.query.by));
        Chooser { reads, rows }
    }
}
