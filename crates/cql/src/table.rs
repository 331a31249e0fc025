//! The table of a keyspace. Only delegates: to `read`, `write`, `matching` and `maintain`.

use crate::client::Use;
use crate::context::TableContext;
use crate::maintain::purge::purge;
use crate::maintain::repair::repair;
use crate::maintain::retention;
use crate::maintain::verify::{Difference, differences};
use crate::matching::CqlMatch;
use crate::read::export::CqlScan;
use crate::read::lookup::{answers, history, last_seen};
use crate::read::statistics::{Sample, is_exact, sample};
use crate::schema::bucket::expected_rows;
use crate::schema::metadata_cache::TableMetadata;
use crate::write::erase::{erase, import};
use crate::write::load::{load, upsert};
use idmatch_model::{Period, SeenAt, Side, TableName, TableOptions, Target, Window, check_id};
use idmatch_store::{
    Answers, BatchSource, Distinct, Durability, Erased, Erasures, Finding, Match, MatchQuery,
    ObservationSource, Repaired, Result, Scan, Table, TableStats,
};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A table of the store.
pub(crate) struct CqlTable {
    pub(crate) context: Arc<TableContext>,
    /// Set when its caller gives up.
    stop: Option<Arc<AtomicBool>>,
}

impl Table for CqlTable {
    fn name(&self) -> &TableName {
        self.context.name()
    }

    fn options(&self) -> Result<TableOptions> {
        Ok(self.read(self.context.metadata_cache.current())?.definition.options())
    }

    fn set_retention(&self, retention: Option<Period>) -> Result<()> {
        self.change(retention::set(&self.context, retention))
    }

    fn load(&self, rows: &dyn ObservationSource) -> Result<()> {
        load(&self.context, rows)
    }

    /// The servers' commit log decides what an acknowledgement means; see
    /// `docs/explanation/servers.md`.
    fn upsert(&self, rows: &dyn ObservationSource, _: Option<Durability>) -> Result<()> {
        upsert(&self.context, rows)
    }

    fn erase(&self, targets: &[Target], at: SeenAt) -> Result<Erased> {
        self.change(erase(&self.context, targets, at))
    }

    fn erasures(&self) -> Result<Erasures> {
        let metadata = self.read(self.context.metadata_cache.refresh())?;
        let hashes = metadata.erasures.iter().collect();
        Ok(Erasures { key: Some(metadata.erasures.key()), hashes })
    }

    fn add_erasures(&self, erasures: &Erasures) -> Result<()> {
        self.context.client.wait(import(&self.context, erasures))
    }

    fn scan(&self) -> Result<Box<dyn Scan>> {
        Ok(Box::new(self.read(CqlScan::begin(&self.context))?))
    }

    fn answers(&self, by: Side, key: &str, window: Window) -> Result<Box<dyn Answers>> {
        check_id(key.as_bytes())?;
        Ok(Box::new(self.read(answers(&self.context, by, key, window))?))
    }

    fn last_seen(&self, id: &str, partner_id: &str) -> Result<Option<SeenAt>> {
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        self.read(last_seen(&self.context, id, partner_id))
    }

    fn history(&self, id: &str, partner_id: &str) -> Result<Vec<SeenAt>> {
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        self.read(history(&self.context, id, partner_id))
    }

    fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<Box<dyn Match>> {
        Ok(Box::new(CqlMatch::run(&self.context, self.stop.as_deref(), population, query)?))
    }

    fn compact(&self) -> Result<()> {
        self.change(purge(&self.context))
    }

    fn verify(&self) -> Result<Vec<Finding>> {
        self.read(async { Ok(findings(&self.context, &differences(&self.context).await?)) })
    }

    fn repair(&self, _: bool) -> Result<Repaired> {
        self.change(async {
            let differences = differences(&self.context).await?;
            let findings = findings(&self.context, &differences);
            repair(&self.context, &differences).await?;
            retention::finish(&self.context).await?;
            Ok(Repaired { findings, lost_at_most: 0 })
        })
    }

    fn stats(&self) -> Result<TableStats> {
        self.read(async {
            let (metadata, by_id, by_partner_id) = self.sample().await?;
            Ok(TableStats {
                rows: by_id.rows,
                bytes: by_id.bytes + by_partner_id.bytes,
                erasures: metadata.erasures.len() as u64,
                oldest: by_id.oldest,
                newest: by_id.newest,
                expected_rows: Some(expected_rows(metadata.definition.buckets)),
                ..TableStats::default()
            })
        })
    }

    fn distinct(&self) -> Result<Distinct> {
        self.read(async {
            let (metadata, by_id, by_partner_id) = self.sample().await?;
            Ok(Distinct {
                ids: by_id.keys,
                partner_ids: by_partner_id.keys,
                pairs: by_id.pairs,
                is_exact: is_exact(&metadata),
            })
        })
    }

    fn stopped_by(&self, stop: &Arc<AtomicBool>) -> Option<Arc<dyn Table>> {
        let (context, stop) = (Arc::clone(&self.context), Some(Arc::clone(stop)));
        Some(Arc::new(CqlTable { context, stop }))
    }
}

impl CqlTable {
    pub(crate) fn new(context: Arc<TableContext>) -> CqlTable {
        CqlTable { context, stop: None }
    }

    /// Waits for a read, as long as the caller does.
    fn read<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.context.client.wait_unless(self.stop.as_deref(), Use::Read, work)
    }

    /// Waits for a change of the table, as long as the caller does.
    fn change<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.context.client.wait_unless(self.stop.as_deref(), Use::Write, work)
    }

    /// The metadata, and a sample of both directions.
    async fn sample(&self) -> Result<(Arc<TableMetadata>, Sample, Sample)> {
        let metadata = self.context.metadata_cache.refresh().await?;
        let by_id = sample(&self.context, &metadata, Side::Id).await?;
        let by_partner_id = sample(&self.context, &metadata, Side::PartnerId).await?;
        Ok((metadata, by_id, by_partner_id))
    }
}

fn findings(context: &TableContext, differences: &[Difference]) -> Vec<Finding> {
    let differences = differences.iter().map(|difference| difference.finding(context));
    differences.chain(retention::unfinished(context)).collect()
}
