//! A table of the embedded store.

use super::shared::Shared;
use super::verify::verify;
use super::view::TableView;
use crate::lookup::{KeyAnswers, pair_dates, places};
use crate::matching::EngineMatch;
use crate::memtable::Commit;
use idmatch_model::{Keep, SeenAt, Side, TableName, TableOptions, Window, check_id};
use idmatch_store::{
    Answers, BatchSource, Error, ErrorKind, Finding, Ingest, Match, MatchQuery, Result, Table,
    TableStats,
};
use std::sync::Arc;

pub(super) struct EngineTable {
    shared: Arc<Shared>,
    name: TableName,
    options: TableOptions,
}

impl EngineTable {
    pub(super) fn new(shared: Arc<Shared>, name: TableName, options: TableOptions) -> EngineTable {
        EngineTable { shared, name, options }
    }

    /// The table as it is now, and the last commit to be read of it.
    fn view(&self) -> Result<(Arc<TableView>, Commit)> {
        let table = self.shared.view().tables.get(&self.name).cloned().ok_or_else(|| {
            let root = self.shared.root().display();
            Error::new(ErrorKind::TableNotFound, format!("{root} has no table {}", self.name))
        })?;
        Ok((table, self.shared.visible()))
    }

    /// The part of a window that the table's retention leaves.
    fn visible(&self, window: Window) -> Window {
        match &self.options.retention {
            Some(retention) => window.within_retention(Some(retention), idmatch_store::now()),
            None => window,
        }
    }

    /// The dates of a pair as stored: newest first, repeats included. Asked on the side of
    /// the pair that has fewer rows.
    fn stored_dates(&self, id: &str, partner_id: &str) -> Result<Vec<SeenAt>> {
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        let (view, last) = self.view()?;
        let by_id = places(&view, Side::Id, id.as_bytes(), last)?;
        let by_partner_id = places(&view, Side::PartnerId, partner_id.as_bytes(), last)?;
        let rows = |places: &[_]| places.iter().map(crate::lookup::Place::len).sum::<usize>();
        if rows(&by_id) <= rows(&by_partner_id) {
            pair_dates(&by_id, partner_id.as_bytes())
        } else {
            pair_dates(&by_partner_id, id.as_bytes())
        }
    }
}

impl Table for EngineTable {
    fn name(&self) -> &TableName {
        &self.name
    }

    fn options(&self) -> &TableOptions {
        &self.options
    }

    fn load(&self, source: &mut dyn BatchSource, ingest: &Ingest<'_>) -> Result<()> {
        self.shared.load(&self.name, &self.options, source, ingest)
    }

    fn upsert(&self, source: &mut dyn BatchSource, ingest: &Ingest<'_>) -> Result<()> {
        self.shared.upsert(&self.name, &self.options, source, ingest)
    }

    fn answers(&self, by: Side, key: &str, window: Window) -> Result<Box<dyn Answers>> {
        check_id(key.as_bytes())?;
        let (view, last) = self.view()?;
        let places = places(&view, by, key.as_bytes(), last)?;
        Ok(Box::new(KeyAnswers::new(places, self.options.keep, self.visible(window))))
    }

    fn last_seen(&self, id: &str, partner_id: &str) -> Result<Option<SeenAt>> {
        let newest = self.stored_dates(id, partner_id)?.first().copied();
        Ok(newest.filter(|date| self.visible(Window::ALL).contains(*date)))
    }

    fn history(&self, id: &str, partner_id: &str) -> Result<Vec<SeenAt>> {
        let mut dates = self.stored_dates(id, partner_id)?;
        dates.dedup();
        if self.options.keep == Keep::Last {
            dates.truncate(1);
        }
        let visible = self.visible(Window::ALL);
        dates.retain(|date| visible.contains(*date));
        Ok(dates)
    }

    fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<Box<dyn Match>> {
        let query = MatchQuery { window: self.visible(query.window), ..query };
        Ok(Box::new(EngineMatch::run(
            self.shared.disk(),
            self.shared.limits().tranche_bytes,
            self.view()?,
            population,
            query,
        )?))
    }

    fn compact(&self) -> Result<()> {
        self.shared.compact(&self.name)
    }

    fn verify(&self) -> Result<Vec<Finding>> {
        let (view, last) = self.view()?;
        verify(&view, last)
    }

    fn stats(&self) -> Result<TableStats> {
        let (view, _) = self.view()?;
        let mut stats = TableStats::default();
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
