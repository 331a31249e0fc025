//! A table in the servers.

use crate::adopt::adopt;
use crate::answers::{answers, history, last_seen};
use crate::bucket::expected_rows;
use crate::erase::erase;
use crate::export::CqlScan;
use crate::handle::Handle;
use crate::load::{load, upsert};
use crate::matching::CqlMatch;
use crate::retention;
use crate::sample::{Sample, is_exact, sample};
use crate::state::Known;
use crate::verify::{Difference, differences, mend};
use idmatch_model::{Period, SeenAt, Side, TableName, TableOptions, Window, check_id};
use idmatch_store::{
    Answers, BatchSource, Distinct, Durability, Erased, Erasures, Finding, Ingest, Match,
    MatchQuery, Repaired, Result, Scan, Table, TableStats,
};
use std::sync::Arc;

/// One table. Cheap to clone; all share what is known of it.
pub(crate) struct CqlTable(pub(crate) Arc<Handle>);

impl Table for CqlTable {
    fn name(&self) -> &TableName {
        self.0.name()
    }

    fn options(&self) -> Result<TableOptions> {
        Ok(self.0.client.wait(self.0.state.current())?.definition.options())
    }

    fn set_retention(&self, retention: Option<Period>) -> Result<()> {
        self.0.client.wait(retention::set(&self.0, retention))
    }

    fn load(&self, source: &mut dyn BatchSource, ingest: &Ingest<'_>) -> Result<()> {
        load(&self.0, source, ingest)
    }

    /// What an acknowledgement means is for the servers' commit log to say; see `docs/operations.md`.
    fn upsert(
        &self,
        source: &mut dyn BatchSource,
        ingest: &Ingest<'_>,
        _: Option<Durability>,
    ) -> Result<()> {
        upsert(&self.0, source, ingest)
    }

    fn erase(
        &self,
        source: &mut dyn BatchSource,
        ingest: &Ingest<'_>,
        at: SeenAt,
    ) -> Result<Erased> {
        ingest.check_date(at)?;
        let targets = ingest.targets(source)?;
        self.0.client.wait(erase(&self.0, targets, at))
    }

    fn erasures(&self) -> Result<Erasures> {
        let known = self.0.client.wait(self.0.state.refresh())?;
        let hashes = known.erasures.iter().collect();
        Ok(Erasures { key: Some(known.erasures.key()), hashes })
    }

    fn add_erasures(&self, erasures: &Erasures) -> Result<()> {
        self.0.client.wait(adopt(&self.0, erasures))
    }

    fn scan(&self) -> Result<Box<dyn Scan>> {
        Ok(Box::new(self.0.client.wait(CqlScan::begin(&self.0))?))
    }

    fn answers(&self, by: Side, key: &str, window: Window) -> Result<Box<dyn Answers>> {
        check_id(key.as_bytes())?;
        Ok(Box::new(self.0.client.wait(answers(&self.0, by, key, window))?))
    }

    fn last_seen(&self, id: &str, partner_id: &str) -> Result<Option<SeenAt>> {
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        self.0.client.wait(last_seen(&self.0, id, partner_id))
    }

    fn history(&self, id: &str, partner_id: &str) -> Result<Vec<SeenAt>> {
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        self.0.client.wait(history(&self.0, id, partner_id))
    }

    fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<Box<dyn Match>> {
        Ok(Box::new(CqlMatch::run(&self.0, population, query)?))
    }

    fn compact(&self) -> Result<()> {
        self.0.client.wait(retention::sweep(&self.0))
    }

    fn verify(&self) -> Result<Vec<Finding>> {
        self.0.client.wait(async { Ok(findings(&self.0, &differences(&self.0).await?)) })
    }

    fn repair(&self, _: bool) -> Result<Repaired> {
        self.0.client.wait(async {
            let differences = differences(&self.0).await?;
            let findings = findings(&self.0, &differences);
            mend(&self.0, &differences).await?;
            retention::finish(&self.0).await?;
            Ok(Repaired { findings, lost_at_most: 0 })
        })
    }

    fn stats(&self) -> Result<TableStats> {
        self.0.client.wait(async {
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
        self.0.client.wait(async {
            let (known, by_id, by_partner_id) = self.sample().await?;
            Ok(Distinct {
                ids: by_id.keys,
                partner_ids: by_partner_id.keys,
                pairs: by_id.pairs,
                is_exact: is_exact(&known),
            })
        })
    }
}

impl CqlTable {
    /// What is known, and a sample of both directions.
    async fn sample(&self) -> Result<(Arc<Known>, Sample, Sample)> {
        let known = self.0.state.refresh().await?;
        let by_id = sample(&self.0, &known, Side::Id).await?;
        let by_partner_id = sample(&self.0, &known, Side::PartnerId).await?;
        Ok((known, by_id, by_partner_id))
    }
}

fn findings(handle: &Handle, differences: &[Difference]) -> Vec<Finding> {
    let differences = differences.iter().map(|difference| difference.finding(handle));
    differences.chain(retention::unfinished(handle)).collect()
}
