//! A table for readers. Only delegates: to `read` and `matching`.

use crate::client::Use;
use crate::context::TableContext;
use crate::logged::{ResultCounts, logged};
use crate::matching::CqlMatch;
use crate::read::export::export;
use crate::read::lookup::{history, last_seen, lookup_many};
use crate::read::scan::scan_range_of_key;
use crate::read::statistics::{is_exact, sample};
use crate::schema::bucket::expected_rows;
use idmatch_model::{SeenAt, Side, TableId, TableName, TableOptions, check_id};
use idmatch_store::{
    Answers, BatchSource, Call, Counting, Distinct, Lookup, Match, MatchQuery, MatchSink, Result,
    ScanQuery, ScanRanges, TableSnapshot, TableStats, Version,
};
use std::future::Future;
use std::sync::Arc;

/// A table, with the options and the reading of the clock of its snapshot.
pub(crate) struct CqlTable {
    pub(crate) context: Arc<TableContext>,
    pub(crate) name: TableName,
    pub(crate) options: TableOptions,
    pub(crate) at: SeenAt,
}

impl TableSnapshot for CqlTable {
    fn id(&self) -> TableId {
        self.context.id()
    }

    fn name(&self) -> &TableName {
        &self.name
    }

    fn options(&self) -> &TableOptions {
        &self.options
    }

    fn version(&self) -> (Option<Version>, SeenAt) {
        (None, self.at)
    }

    fn lookup_many(&self, keys: &[&str], lookup: Lookup, call: &Call) -> Result<Answers> {
        for key in keys {
            check_id(key.as_bytes())?;
        }
        self.read(call, lookup_many(&self.context, keys, lookup, self.at))
    }

    fn last_seen(&self, id: &str, partner_id: &str, call: &Call) -> Result<Option<SeenAt>> {
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        self.read(call, last_seen(&self.context, (id, partner_id), self.at))
    }

    fn history(&self, id: &str, partner_id: &str, call: &Call) -> Result<Vec<SeenAt>> {
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        self.read(call, history(&self.context, (id, partner_id), self.at))
    }

    fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
        call: &Call,
    ) -> Result<Box<dyn Match>> {
        let matches = |found: &CqlMatch| ResultCounts::of_rows(found.counts().rows);
        let found = logged("match", &self.name, matches, || {
            CqlMatch::run(&self.context, population, (query, self.at), call)
        })?;
        Ok(Box::new(found))
    }

    fn scan_range_of(&self, id: &str) -> usize {
        scan_range_of_key(&self.context, id)
    }

    fn scan(
        &self,
        ranges: &ScanRanges,
        query: ScanQuery,
        sink: &dyn MatchSink,
        call: &Call,
    ) -> Result<()> {
        let metadata = self.read(call, self.context.metadata_cache.refresh())?;
        let visible = metadata.visible_range(query.window, self.at);
        export(&self.context, ranges, (visible, query.columns), sink, call)
    }

    fn stats(&self, counting: Counting, call: &Call) -> Result<TableStats> {
        self.read(call, async {
            let metadata = self.context.metadata_cache.refresh().await?;
            let by_id = sample(&self.context, &metadata, Side::Id, counting).await?;
            let by_partner_id = sample(&self.context, &metadata, Side::PartnerId, counting).await?;
            Ok(TableStats {
                rows: by_id.rows,
                bytes: by_id.bytes + by_partner_id.bytes,
                erasures: metadata.erasures.len() as u64,
                oldest: by_id.oldest,
                newest: by_id.newest,
                distinct: Distinct {
                    ids: by_id.keys,
                    partner_ids: by_partner_id.keys,
                    pairs: by_id.pairs,
                    is_exact: is_exact(&metadata, counting),
                },
                largest_key_rows: Some(by_id.largest_key.max(by_partner_id.largest_key))
                    .filter(|rows| *rows > 0),
                expected_rows: Some(expected_rows(metadata.definition.buckets)),
                ..TableStats::default()
            })
        })
    }
}

impl CqlTable {
    /// Waits for a read, and gives it up when its call ends.
    fn read<T>(&self, call: &Call, work: impl Future<Output = Result<T>>) -> Result<T> {
        call.check()?;
        self.context.client.wait_unless(call, Use::Read, work)
    }
}
