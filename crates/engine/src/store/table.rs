//! A table of the embedded store.

use super::compacting::pending_bytes;
use super::distinct::distinct;
use super::scan::EngineScan;
use super::shared::User;
use super::verify::verify;
use super::view::TableView;
use crate::lookup::{KeyAnswers, pair_dates, places};
use crate::matching::EngineMatch;
use crate::memtable::Commit;
use crate::packed::Packer;
use crate::workers;
use idmatch_model::{Keep, Period, SeenAt, Side, TableName, TableOptions, Window, check_id};
use idmatch_store::{
    Answers, BatchSource, Distinct, Durability, Erased, Erasures, Finding, Ingest, Match,
    MatchQuery, Repaired, Result, Scan, Table, TableStats,
};
use std::sync::Arc;

pub(super) struct EngineTable {
    shared: Arc<User>,
    name: TableName,
    /// What it is made with, if it is not there yet.
    options: TableOptions,
}

impl EngineTable {
    pub(super) fn new(shared: Arc<User>, name: TableName, options: TableOptions) -> EngineTable {
        EngineTable { shared, name, options }
    }

    /// The table as it is now, and the last commit to be read of it.
    fn view(&self) -> Result<(Arc<TableView>, Commit)> {
        let table = self.shared.table_of(&self.shared.view(), &self.name)?.clone();
        Ok((table, self.shared.visible()))
    }

    /// The dates of a pair as stored: newest first, repeats included. Asked on the side of
    /// the pair that has fewer rows.
    fn stored_dates(&self, id: &str, partner_id: &str) -> Result<(Vec<SeenAt>, Arc<TableView>)> {
        workers::note_short_work();
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        let (view, last) = self.view()?;
        let mut packers = (Packer::default(), Packer::default());
        let (id, partner_id) =
            (packers.0.pack(id.as_bytes()), packers.1.pack(partner_id.as_bytes()));
        let by_id = places(&view, Side::Id, id, last)?;
        let by_partner_id = places(&view, Side::PartnerId, partner_id, last)?;
        let rows = |places: &[_]| places.iter().map(crate::lookup::Place::len).sum::<usize>();
        let dates = if rows(&by_id) <= rows(&by_partner_id) {
            pair_dates(&by_id, partner_id)?
        } else {
            pair_dates(&by_partner_id, id)?
        };
        Ok((dates, view))
    }
}

/// The part of a window that a table's retention leaves.
pub(super) fn visible(table: &TableView, window: Window) -> Window {
    match &table.options.retention {
        Some(retention) => window.within_retention(Some(retention), idmatch_store::now()),
        None => window,
    }
}

impl Table for EngineTable {
    fn name(&self) -> &TableName {
        &self.name
    }

    fn options(&self) -> Result<TableOptions> {
        let view = self.shared.view();
        let table = view.tables.get(&self.name);
        Ok(table.map_or_else(|| self.options.clone(), |table| table.options.clone()))
    }

    fn set_retention(&self, retention: Option<Period>) -> Result<()> {
        self.shared.set_retention(&self.name, retention)
    }

    fn load(&self, source: &mut dyn BatchSource, ingest: &Ingest<'_>) -> Result<()> {
        self.shared.load(&self.name, &self.options, source, ingest)
    }

    fn upsert(
        &self,
        source: &mut dyn BatchSource,
        ingest: &Ingest<'_>,
        durability: Option<Durability>,
    ) -> Result<()> {
        workers::note_short_work();
        self.shared.upsert(&self.name, &self.options, source, ingest, durability)
    }

    fn erase(
        &self,
        source: &mut dyn BatchSource,
        ingest: &Ingest<'_>,
        at: SeenAt,
    ) -> Result<Erased> {
        ingest.check_date(at)?;
        let targets = ingest.targets(source)?;
        self.shared.erase(&self.name, &targets, at)
    }

    fn erasures(&self) -> Result<Erasures> {
        let store = self.shared.view();
        let key = store.manifest.erasure_key()?;
        let hashes = self.shared.table_of(&store, &self.name)?.rules.erasures.all();
        Ok(Erasures { key, hashes })
    }

    fn add_erasures(&self, erasures: &Erasures) -> Result<()> {
        self.shared.add_erasures(&self.name, erasures)
    }

    fn scan(&self) -> Result<Box<dyn Scan>> {
        let (view, last) = self.view()?;
        Ok(Box::new(EngineScan::new(view, last)))
    }

    fn answers(&self, by: Side, key: &str, window: Window) -> Result<Box<dyn Answers>> {
        workers::note_short_work();
        check_id(key.as_bytes())?;
        let (view, last) = self.view()?;
        let places = places(&view, by, Packer::default().pack(key.as_bytes()), last)?;
        Ok(Box::new(KeyAnswers::new(places, view.rules.keep, visible(&view, window))))
    }

    fn last_seen(&self, id: &str, partner_id: &str) -> Result<Option<SeenAt>> {
        let (dates, view) = self.stored_dates(id, partner_id)?;
        Ok(dates.first().copied().filter(|date| visible(&view, Window::ALL).contains(*date)))
    }

    fn history(&self, id: &str, partner_id: &str) -> Result<Vec<SeenAt>> {
        let (mut dates, view) = self.stored_dates(id, partner_id)?;
        dates.dedup();
        if view.rules.keep == Keep::Last {
            dates.truncate(1);
        }
        let visible = visible(&view, Window::ALL);
        dates.retain(|date| visible.contains(*date));
        Ok(dates)
    }

    fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<Box<dyn Match>> {
        let (view, last) = self.view()?;
        let query = MatchQuery { window: visible(&view, query.window), ..query };
        Ok(Box::new(EngineMatch::run(
            self.shared.disk(),
            self.shared.limits().tranche_bytes,
            (view, last),
            population,
            query,
        )?))
    }

    fn compact(&self) -> Result<()> {
        self.shared.compact(&self.name)
    }

    fn verify(&self) -> Result<Vec<Finding>> {
        // Nothing is removed that the manifest of now names.
        let _copying = self.shared.files_stay();
        let manifest = self.shared.view().manifest.clone();
        let (view, last) = self.view()?;
        let place = (self.shared.disk(), &*self.shared.segments());
        verify(place, manifest.erasures(&self.name), &view, last)
    }

    fn repair(&self, accept_loss: bool) -> Result<Repaired> {
        self.shared.repair(&self.name, accept_loss)
    }

    fn distinct(&self) -> Result<Distinct> {
        let (view, last) = self.view()?;
        distinct(&view, last, self.stats()?.rows)
    }

    fn stats(&self) -> Result<TableStats> {
        let (view, _) = self.view()?;
        let mut stats = TableStats {
            pending_compaction_bytes: pending_bytes(&view, self.shared.limits()),
            erasures: view.rules.erasures.len(),
            ..TableStats::default()
        };
        let mut span = |(oldest, newest): (SeenAt, SeenAt)| {
            stats.oldest = Some(stats.oldest.map_or(oldest, |other| other.min(oldest)));
            stats.newest = stats.newest.max(Some(newest));
        };

        for side in Side::BOTH {
            for segment in view.segments(side) {
                let header = &segment.header;
                stats.segments += 1;
                stats.bytes += header.file_len();
                if side == Side::Id {
                    stats.rows += header.rows;
                }
                span((header.oldest, header.newest));
            }
        }
        for memtable in view.live() {
            stats.rows += memtable.rows();
            stats.memtable_rows += memtable.rows();
            stats.memtable_bytes += memtable.bytes() as u64;
            memtable.span().into_iter().for_each(&mut span);
        }
        Ok(stats)
    }
}
