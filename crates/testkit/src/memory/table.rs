//! A table of the reference.

use super::matched::MemoryMatch;
use super::observed::{Answer, Observed};
use super::scan::MemoryScan;
use idmatch_model::{
    ErasureKey, Keep, Period, SeenAt, Side, TableName, TableOptions, Target, Window, check_id,
};
use idmatch_store::{
    Answers, BatchSource, Distinct, Durability, Erased, Erasures, Error, ErrorKind, Finding, Match,
    MatchQuery, ObservationSource, Repaired, Result, Scan, Table, TableStats, now,
};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::vec;

/// A table in memory.
pub(super) struct MemoryTable {
    name: TableName,
    keep: Keep,
    retention: RwLock<Option<Period>>,
    observed: RwLock<Observed>,
    /// The store's.
    erasure_key: Arc<OnceLock<ErasureKey>>,
}

impl MemoryTable {
    /// A table without observations.
    pub(super) fn new(
        name: TableName,
        options: TableOptions,
        erasure_key: Arc<OnceLock<ErasureKey>>,
    ) -> MemoryTable {
        let TableOptions { keep, retention } = options;
        let (retention, observed) = (RwLock::new(retention), RwLock::default());
        MemoryTable { name, keep, retention, observed, erasure_key }
    }

    /// What erasures are hashed with.
    fn key(&self) -> Result<ErasureKey> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|e| {
            Error::with_source(ErrorKind::Io, "the system gives no random bytes for a key", e)
        })?;
        Ok(*self.erasure_key.get_or_init(|| ErasureKey::new(random)))
    }

    fn read(&self) -> RwLockReadGuard<'_, Observed> {
        self.observed.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn retention(&self) -> Option<Period> {
        self.retention.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells which dates the window and the retention leave to be seen.
    fn visibility(&self, window: Window) -> impl Fn(SeenAt) -> bool + use<> {
        let oldest = self.retention().map_or(SeenAt::EPOCH, |period| period.before(now()));
        move |date| oldest <= date && window.contains(date)
    }
}

impl Table for MemoryTable {
    fn name(&self) -> &TableName {
        &self.name
    }

    fn options(&self) -> Result<TableOptions> {
        Ok(TableOptions { keep: self.keep, retention: self.retention() })
    }

    fn set_retention(&self, retention: Option<Period>) -> Result<()> {
        *self.retention.write().unwrap_or_else(PoisonError::into_inner) = retention;
        Ok(())
    }

    fn load(&self, source: &dyn ObservationSource) -> Result<()> {
        let mut rows = Vec::new();
        while let Some(batch) = source.next_batch()? {
            let pairs = batch.ids.iter().zip(batch.partner_ids.iter());
            for ((id, partner_id), seen_at) in pairs.zip(&batch.seen_at) {
                let (id, partner_id) = (check_id(id)?, check_id(partner_id)?);
                rows.push((id.to_owned(), partner_id.to_owned(), *seen_at));
            }
        }
        let mut observed = self.observed.write().unwrap_or_else(PoisonError::into_inner);
        for (id, partner_id, seen_at) in rows {
            observed.add(self.keep, &id, &partner_id, seen_at);
        }
        Ok(())
    }

    fn upsert(&self, source: &dyn ObservationSource, _: Option<Durability>) -> Result<()> {
        self.load(source)
    }

    fn erase(&self, targets: &[Target], at: SeenAt) -> Result<Erased> {
        let key = self.key()?;
        let hashes: Vec<_> = targets.iter().map(|target| (key.of(target), at)).collect();
        let mut observed = self.observed.write().unwrap_or_else(PoisonError::into_inner);
        Ok(observed.erase(key, &hashes))
    }

    fn erasures(&self) -> Result<Erasures> {
        Ok(Erasures { key: self.erasure_key.get().copied(), hashes: self.read().erasures() })
    }

    fn add_erasures(&self, erasures: &Erasures) -> Result<()> {
        let key = self.key()?;
        erasures.check_key(Some(key), &self.name)?;
        let mut observed = self.observed.write().unwrap_or_else(PoisonError::into_inner);
        observed.erase(key, &erasures.hashes);
        Ok(())
    }

    fn scan(&self) -> Result<Box<dyn Scan>> {
        let is_visible = self.visibility(Window::ALL);
        let observed = self.read();
        let rows = observed.iter().filter(|(_, _, date)| is_visible(*date));
        let rows = rows.map(|(id, partner_id, date)| (id.to_owned(), partner_id.to_owned(), date));
        Ok(Box::new(MemoryScan::new(rows.collect())))
    }

    fn answers(&self, by: Side, key: &str, window: Window) -> Result<Box<dyn Answers>> {
        check_id(key.as_bytes())?;
        let answers = self.read().answers(by, key, self.visibility(window));
        Ok(Box::new(MemoryAnswers { rest: answers.into_iter(), current: None }))
    }

    fn last_seen(&self, id: &str, partner_id: &str) -> Result<Option<SeenAt>> {
        Ok(self.history(id, partner_id)?.first().copied())
    }

    fn history(&self, id: &str, partner_id: &str) -> Result<Vec<SeenAt>> {
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        let is_visible = self.visibility(Window::ALL);
        Ok(self.read().dates(id, partner_id).filter(|date| is_visible(*date)).collect())
    }

    fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<Box<dyn Match>> {
        let mut batches = Vec::new();
        while let Some(batch) = population.next_batch()? {
            batches.push(idmatch_store::population_ids(&batch)?);
        }
        let observed = self.read();
        let is_visible = self.visibility(query.window);
        let mut matched = MemoryMatch::new(query.by);
        for key in batches.iter().flatten() {
            let key = key.and_then(|bytes| std::str::from_utf8(bytes).ok());
            let answers = key.map(|key| (key, observed.answers(query.by, key, &is_visible)));
            matched.add_population_row(answers, query.pick);
        }
        Ok(Box::new(matched))
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn verify(&self) -> Result<Vec<Finding>> {
        if self.read().is_consistent() {
            return Ok(Vec::new());
        }
        Ok(vec![Finding {
            place: format!("table {}", self.name),
            problem: "its two directions hold different observations".to_owned(),
        }])
    }

    fn repair(&self, _: bool) -> Result<Repaired> {
        Ok(Repaired::default())
    }

    fn distinct(&self) -> Result<Distinct> {
        let observed = self.read();
        let distinct = |of: &dyn Fn((&str, &str)) -> String| {
            let all: BTreeSet<String> = observed.iter().map(|row| of((row.0, row.1))).collect();
            all.len() as u64
        };
        Ok(Distinct {
            ids: distinct(&|(id, _)| id.to_owned()),
            partner_ids: distinct(&|(_, partner_id)| partner_id.to_owned()),
            pairs: distinct(&|pair| format!("{pair:?}")),
            is_exact: true,
        })
    }

    fn stats(&self) -> Result<TableStats> {
        let observed = self.read();
        let mut stats =
            TableStats { erasures: observed.erasures().len() as u64, ..TableStats::default() };
        for (_, _, date) in observed.iter() {
            stats.rows += 1;
            stats.oldest = Some(stats.oldest.map_or(date, |oldest| oldest.min(date)));
            stats.newest = stats.newest.max(Some(date));
        }
        Ok(stats)
    }
}

struct MemoryAnswers {
    rest: vec::IntoIter<Answer>,
    current: Option<Answer>,
}

impl Answers for MemoryAnswers {
    fn next_answer(&mut self) -> Result<Option<(&str, SeenAt)>> {
        self.current = self.rest.next();
        Ok(self.current.as_ref().map(|(answer, seen_at)| (&**answer, *seen_at)))
    }
}
