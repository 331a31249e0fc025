//! A table of the reference, as a snapshot shows it.

use super::matched::MemoryMatch;
use super::observed::Observed;
use idmatch_model::{Keep, SeenAt, TableId, TableName, TableOptions, Window, check_id};
use idmatch_store::{
    Answers, BatchSource, Call, Counting, Distinct, JudgedPopulation, Lookup, Match, MatchQuery,
    MatchSink, Result, RowLane, SCAN_RANGES, ScanQuery, ScanRanges, SessionId, TableSnapshot,
    TableStats, UnmatchedReason, Version,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// A row as (id, partner_id, seen_at).
pub(super) type StagedRow = (String, String, SeenAt);

/// A replace that runs: the rows that were written since it began.
#[derive(Clone)]
pub(super) struct Replacing {
    pub(super) session: SessionId,
    pub(super) since: Arc<Observed>,
}

impl Replacing {
    /// Adds a row that is written during the replace.
    fn add(&mut self, keep: Keep, (id, partner_id, seen_at): &StagedRow) {
        Arc::make_mut(&mut self.since).add(keep, id, partner_id, *seen_at);
    }
}

/// A table in memory. A clone is a copy.
#[derive(Clone)]
pub(super) struct MemoryTable {
    pub(super) id: TableId,
    pub(super) name: TableName,
    pub(super) options: TableOptions,
    pub(super) observed: Arc<Observed>,
    pub(super) replacing: Option<Replacing>,
}

impl MemoryTable {
    /// Adds rows.
    pub(super) fn add(&mut self, rows: &[StagedRow]) {
        let (keep, observed) = (self.options.keep, Arc::make_mut(&mut self.observed));
        for row in rows {
            observed.add(keep, &row.0, &row.1, row.2);
            if let Some(replacing) = &mut self.replacing {
                replacing.add(keep, row);
            }
        }
    }

    /// The table at a version, by this reading of the clock.
    pub(super) fn at(self, version: Option<Version>, at: SeenAt) -> MemoryTableSnapshot {
        MemoryTableSnapshot { table: self, version, at }
    }
}

/// A copy of a table.
pub(super) struct MemoryTableSnapshot {
    table: MemoryTable,
    version: Option<Version>,
    at: SeenAt,
}

impl MemoryTableSnapshot {
    /// Tells which dates the window and the retention leave to be seen.
    fn visibility(&self, window: Window) -> impl Fn(SeenAt) -> bool + use<> {
        let retention = self.table.options.retention.as_ref();
        let oldest = retention.map_or(SeenAt::EPOCH, |period| period.before(self.at));
        move |date| oldest <= date && window.contains(date)
    }
}

impl TableSnapshot for MemoryTableSnapshot {
    fn id(&self) -> TableId {
        self.table.id
    }

    fn name(&self) -> &TableName {
        &self.table.name
    }

    fn options(&self) -> &TableOptions {
        &self.table.options
    }

    fn version(&self) -> (Option<Version>, SeenAt) {
        (self.version, self.at)
    }

    fn lookup_many(&self, keys: &[&str], lookup: Lookup, call: &Call) -> Result<Answers> {
        let is_visible = self.visibility(lookup.window);
        let mut all = Answers::new(keys.len());
        for key in keys {
            call.check()?;
            check_id(key.as_bytes())?;
            let answers = self.table.observed.answers(lookup.by, key, &is_visible);
            for (answer, date) in answers.iter().take(lookup.limit) {
                all.push(answer, *date)?;
            }
            all.end_key();
        }
        Ok(all)
    }

    fn last_seen(&self, id: &str, partner_id: &str, call: &Call) -> Result<Option<SeenAt>> {
        Ok(self.history(id, partner_id, call)?.first().copied())
    }

    fn history(&self, id: &str, partner_id: &str, _: &Call) -> Result<Vec<SeenAt>> {
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        let is_visible = self.visibility(Window::ALL);
        let dates = self.table.observed.dates(id, partner_id);
        Ok(dates.filter(|date| is_visible(*date)).collect())
    }

    fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
        call: &Call,
    ) -> Result<Box<dyn Match>> {
        let is_visible = self.visibility(query.window);
        let mut population = JudgedPopulation::new(population, query);
        let (mut matched, mut rows) = (MemoryMatch::new(query), 0);
        while let Some(batch) = population.next_batch()? {
            call.check()?;
            rows = query.row_after(rows, batch.batch.num_rows())?;
            for bytes in &idmatch_store::population_ids(&batch)? {
                let key = match bytes.map(check_id) {
                    None => Err(UnmatchedReason::Null),
                    Some(Err(_)) => Err(UnmatchedReason::Malformed),
                    Some(Ok(key)) => Ok(key),
                };
                let answers =
                    key.map(|key| (key, self.table.observed.answers(query.by, key, &is_visible)));
                matched.add_population_row(answers);
            }
        }
        Ok(Box::new(matched))
    }

    fn scan_range_of(&self, id: &str) -> usize {
        XxHash3_64::oneshot(id.as_bytes()) as usize % SCAN_RANGES
    }

    fn scan(
        &self,
        ranges: &ScanRanges,
        query: ScanQuery,
        sink: &dyn MatchSink,
        call: &Call,
    ) -> Result<()> {
        let is_visible = self.visibility(query.window);
        let mut lane = RowLane::new(sink.lane()?, query.columns);
        for (id, partner_id, seen_at) in self.table.observed.iter() {
            call.check()?;
            if ranges.contains(self.scan_range_of(id)) && is_visible(seen_at) {
                lane.push(id, partner_id, seen_at)?;
            }
        }
        lane.finish()
    }

    fn stats(&self, _: Counting, _: &Call) -> Result<TableStats> {
        let observed = &self.table.observed;
        let mut stats =
            TableStats { erasures: observed.erasures().len() as u64, ..TableStats::default() };
        for (_, _, date) in observed.iter() {
            stats.rows += 1;
            stats.oldest = Some(stats.oldest.map_or(date, |oldest| oldest.min(date)));
            stats.newest = stats.newest.max(Some(date));
        }
        let distinct = |of: &dyn Fn((&str, &str)) -> String| {
            let rows = self.table.observed.iter();
            let all: BTreeSet<String> = rows.map(|row| of((row.0, row.1))).collect();
            all.len() as u64
        };
        stats.distinct = Distinct {
            ids: distinct(&|(id, _)| id.to_owned()),
            partner_ids: distinct(&|(_, partner_id)| partner_id.to_owned()),
            pairs: distinct(&|pair| format!("{pair:?}")),
            is_exact: true,
        };
        Ok(stats)
    }
}
