//! A table in the servers.

use crate::client::Use;
use crate::context::Handle;
use crate::maintain::retention;
use crate::maintain::verify::{Difference, differences, mend};
use crate::matching::CqlMatch;
use crate::read::export::CqlScan;
use crate::read::lookup::{answers, history, last_seen};
use crate::read::statistics::{Sample, is_exact, sample};
use crate::schema::bucket::expected_rows;
use crate::schema::metadata_cache::Known;
use crate::write::erase::{erase, import};
use crate::write::load::{load, upsert};
use idmatch_model::{Period, SeenAt, Side, TableName, TableOptions, Window, check_id};
use idmatch_store::{
    Answers, BatchSource, Distinct, Durability, Erased, Erasures, Finding, Ingest, Match,
    MatchQuery, Repaired, Result, Scan, Table, TableStats,
};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// One table.
pub(crate) struct CqlTable {
    pub(crate) handle: Arc<Handle>,
    /// Set when its caller gives up.
    stop: Option<Arc<AtomicBool>>,
}

impl Table for CqlTable {
    fn name(&self) -> &TableName {
        self.handle.name()
    }

    fn options(&self) -> Result<TableOptions> {
        Ok(self.read(self.handle.state.current())?.definition.options())
    }

    fn set_retention(&self, retention: Option<Period>) -> Result<()> {
        self.change(retention::set(&self.handle, retention))
    }

    fn load(&self, source: &mut dyn BatchSource, ingest: &Ingest<'_>) -> Result<()> {
        load(&self.handle, source, ingest)
    }

    /// What an acknowledgement means is for the servers' commit log to say; see `docs/explanation/servers.md`.
    fn upsert(
        &self,
        source: &mut dyn BatchSource,
        ingest: &Ingest<'_>,
        _: Option<Durability>,
    ) -> Result<()> {
        upsert(&self.handle, source, ingest)
    }

    fn erase(
        &self,
        source: &mut dyn BatchSource,
        ingest: &Ingest<'_>,
        at: SeenAt,
    ) -> Result<Erased> {
        ingest.check_date(at)?;
        let targets = ingest.targets(source)?;
        self.change(erase(&self.handle, targets, at))
    }

    fn erasures(&self) -> Result<Erasures> {
        let known = self.read(self.handle.state.refresh())?;
        let hashes = known.erasures.iter().collect();
        Ok(Erasures { key: Some(known.erasures.key()), hashes })
    }

    fn add_erasures(&self, erasures: &Erasures) -> Result<()> {
        self.handle.client.wait(import(&self.handle, erasures))
    }

    fn scan(&self) -> Result<Box<dyn Scan>> {
        Ok(Box::new(self.read(CqlScan::begin(&self.handle))?))
    }

    fn answers(&self, by: Side, key: &str, window: Window) -> Result<Box<dyn Answers>> {
        check_id(key.as_bytes())?;
        Ok(Box::new(self.read(answers(&self.handle, by, key, window))?))
    }

    fn last_seen(&self, id: &str, partner_id: &str) -> Result<Option<SeenAt>> {
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        self.read(last_seen(&self.handle, id, partner_id))
    }

    fn history(&self, id: &str, partner_id: &str) -> Result<Vec<SeenAt>> {
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        self.read(history(&self.handle, id, partner_id))
    }

    fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<Box<dyn Match>> {
        Ok(Box::new(CqlMatch::run(&self.handle, self.stop.as_deref(), population, query)?))
    }

    fn compact(&self) -> Result<()> {
        self.change(retention::sweep(&self.handle))
    }

    fn verify(&self) -> Result<Vec<Finding>> {
        self.read(async { Ok(findings(&self.handle, &differences(&self.handle).await?)) })
    }

    fn repair(&self, _: bool) -> Result<Repaired> {
        self.change(async {
            let differences = differences(&self.handle).await?;
            let findings = findings(&self.handle, &differences);
            mend(&self.handle, &differences).await?;
            retention::finish(&self.handle).await?;
            Ok(Repaired { findings, lost_at_most: 0 })
        })
    }

    fn stats(&self) -> Result<TableStats> {
        self.read(async {
            let (known, by_id, by_partner_id) = self.sample().await?;
            Ok(TableStats {
                rows: by_id.rows,
                bytes: by_id.bytes + by_partner_id.bytes,
                erasures: known.erasures.len() as u64,
                oldest: by_id.oldest,
                newest: by_id.newest,
                expected_rows: Some(expected_rows(known.definition.buckets)),
                ..TableStats::default()
            })
        })
    }

    fn distinct(&self) -> Result<Distinct> {
        self.read(async {
            let (known, by_id, by_partner_id) = self.sample().await?;
            Ok(Distinct {
                ids: by_id.keys,
                partner_ids: by_partner_id.keys,
                pairs: by_id.pairs,
                is_exact: is_exact(&known),
            })
        })
    }

    fn stopped_by(&self, stop: &Arc<AtomicBool>) -> Option<Arc<dyn Table>> {
        let (handle, stop) = (Arc::clone(&self.handle), Some(Arc::clone(stop)));
        Some(Arc::new(CqlTable { handle, stop }))
    }
}

impl CqlTable {
    pub(crate) fn new(handle: Arc<Handle>) -> CqlTable {
        CqlTable { handle, stop: None }
    }

    /// Waits for what only reads, as long as the caller does.
    fn read<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.handle.client.wait_unless(self.stop.as_deref(), Use::Read, work)
    }

    /// The same for what changes the table.
    fn change<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.handle.client.wait_unless(self.stop.as_deref(), Use::Write, work)
    }

    /// What is known, and a sample of both directions.
    async fn sample(&self) -> Result<(Arc<Known>, Sample, Sample)> {
        let known = self.handle.state.refresh().await?;
        let by_id = sample(&self.handle, &known, Side::Id).await?;
        let by_partner_id = sample(&self.handle, &known, Side::PartnerId).await?;
        Ok((known, by_id, by_partner_id))
    }
}

fn findings(handle: &Handle, differences: &[Difference]) -> Vec<Finding> {
    let differences = differences.iter().map(|difference| difference.finding(handle));
    differences.chain(retention::unfinished(handle)).collect()
}
