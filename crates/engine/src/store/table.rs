//! A table of the embedded store. Must not do more than delegate.

use super::handle::StoreHandle;
use super::owners::Owners;
use crate::catalog;
use crate::compaction::pending_bytes;
use crate::cpu;
use crate::encoding::Packer;
use crate::lookup::{KeyAnswers, locate, pair_dates};
use crate::matching::EngineMatch;
use crate::memtable::Commit;
use crate::recovery::Repair;
use crate::scan::{EngineScan, distinct};
use crate::verify::verify_table;
use crate::versions::TableVersion;
use idmatch_model::{
    Keep, Period, SeenAt, Side, TableName, TableOptions, Target, Window, check_id,
};
use idmatch_store::{
    Answers, BatchSource, Distinct, Durability, Erased, Erasures, Finding, Match, MatchQuery,
    ObservationSource, Repaired, Result, Scan, Table, TableStats,
};
use std::sync::Arc;

pub(super) struct EngineTable {
    owners: Arc<StoreHandle>,
    name: TableName,
    /// The options it is made with, if there is no such table yet.
    options: TableOptions,
}

impl EngineTable {
    pub(super) fn new(
        owners: Arc<StoreHandle>,
        name: TableName,
        options: TableOptions,
    ) -> EngineTable {
        EngineTable { owners, name, options }
    }

    /// The owners, for a write.
    fn writer(&self) -> Result<&Owners> {
        self.owners.check_open()?;
        Ok(&self.owners)
    }

    /// The table as it is now, and the last commit to be read of it.
    fn version(&self) -> Result<(Arc<TableVersion>, Commit)> {
        let table =
            self.owners.versions.table_of(&self.owners.versions.current(), &self.name)?.clone();
        Ok((table, self.owners.versions.last_commit()))
    }

    /// The dates of a pair as stored: newest first, repeats included. Asked on the side of
    /// the pair that has fewer rows.
    fn stored_dates(&self, id: &str, partner_id: &str) -> Result<(Vec<SeenAt>, Arc<TableVersion>)> {
        cpu::note_foreground();
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        let (table, last) = self.version()?;
        let mut packers = (Packer::default(), Packer::default());
        let (id, partner_id) =
            (packers.0.pack(id.as_bytes()), packers.1.pack(partner_id.as_bytes()));
        let by_id = locate(&table, Side::Id, id, last)?;
        let by_partner_id = locate(&table, Side::PartnerId, partner_id, last)?;
        let rows =
            |locations: &[_]| locations.iter().map(crate::lookup::KeyLocation::len).sum::<usize>();
        let dates = if rows(&by_id) <= rows(&by_partner_id) {
            pair_dates(&by_id, partner_id)?
        } else {
            pair_dates(&by_partner_id, id)?
        };
        Ok((dates, table))
    }
}

impl Table for EngineTable {
    fn name(&self) -> &TableName {
        &self.name
    }

    fn options(&self) -> Result<TableOptions> {
        let table = self.owners.versions.current();
        let table = table.tables.get(&self.name);
        Ok(table.map_or_else(|| self.options.clone(), |table| table.options.clone()))
    }

    fn set_retention(&self, retention: Option<Period>) -> Result<()> {
        let owners = self.writer()?;
        catalog::set_retention(&owners.versions, &owners.lock, &self.name, retention)
    }

    fn load(&self, rows: &dyn ObservationSource) -> Result<()> {
        self.writer()?.loader.load(&self.name, &self.options, rows)
    }

    fn upsert(&self, rows: &dyn ObservationSource, durability: Option<Durability>) -> Result<()> {
        cpu::note_foreground();
        let of_store = self.owners.durability();
        let durability = durability.unwrap_or(of_store).min(of_store);
        self.writer()?.writes.upsert(&self.name, &self.options, rows, durability)
    }

    fn erase(&self, targets: &[Target], at: SeenAt) -> Result<Erased> {
        self.writer()?.eraser.erase(&self.name, targets, at)
    }

    fn erasures(&self) -> Result<Erasures> {
        let store = self.owners.versions.current();
        let key = store.manifest.erasure_key()?;
        let hashes = self.owners.versions.table_of(&store, &self.name)?.row_rules.tombstones.all();
        Ok(Erasures { key, hashes })
    }

    fn add_erasures(&self, erasures: &Erasures) -> Result<()> {
        self.writer()?.eraser.add_tombstones(&self.name, erasures)
    }

    fn scan(&self) -> Result<Box<dyn Scan>> {
        let (table, last) = self.version()?;
        Ok(Box::new(EngineScan::new(table, last)))
    }

    fn answers(&self, by: Side, key: &str, window: Window) -> Result<Box<dyn Answers>> {
        cpu::note_foreground();
        check_id(key.as_bytes())?;
        let (table, last) = self.version()?;
        let locations = locate(&table, by, Packer::default().pack(key.as_bytes()), last)?;
        Ok(Box::new(KeyAnswers::new(locations, table.row_rules.keep, table.visible_window(window))))
    }

    fn last_seen(&self, id: &str, partner_id: &str) -> Result<Option<SeenAt>> {
        let (dates, table) = self.stored_dates(id, partner_id)?;
        Ok(dates.first().copied().filter(|date| table.visible_window(Window::ALL).contains(*date)))
    }

    fn history(&self, id: &str, partner_id: &str) -> Result<Vec<SeenAt>> {
        let (mut dates, table) = self.stored_dates(id, partner_id)?;
        dates.dedup();
        if table.row_rules.keep == Keep::Last {
            dates.truncate(1);
        }
        let visible = table.visible_window(Window::ALL);
        dates.retain(|date| visible.contains(*date));
        Ok(dates)
    }

    fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<Box<dyn Match>> {
        let (table, last) = self.version()?;
        let query = MatchQuery { window: table.visible_window(query.window), ..query };
        Ok(Box::new(EngineMatch::run(
            &*self.owners.versions.disk,
            self.owners.versions.limits.population_bytes,
            (table, last),
            population,
            query,
        )?))
    }

    fn compact(&self) -> Result<()> {
        let _guard = self.writer()?.lock.acquire()?;
        self.owners.writes.flush_all()?;
        self.owners.compactor.compact(&self.name)
    }

    fn verify(&self) -> Result<Vec<Finding>> {
        let version = self.owners.versions.current();
        verify_table(&self.owners.versions, &version, &self.name)
    }

    fn repair(&self, accept_loss: bool) -> Result<Repaired> {
        let Owners { versions, lock, writes, compactor, loader, .. } = self.writer()?;
        Repair { versions, lock, writes, compactor, loader }.table(&self.name, accept_loss)
    }

    fn distinct(&self) -> Result<Distinct> {
        let (table, last) = self.version()?;
        distinct(&table, last, self.stats()?.rows)
    }

    fn stats(&self) -> Result<TableStats> {
        let version = self.owners.versions.current();
        let table = self.owners.versions.table_of(&version, &self.name)?;
        let mut stats = TableStats {
            pending_compaction_bytes: pending_bytes(
                table,
                &version.manifest.clock,
                self.owners.versions.limits,
            ),
            erasures: table.row_rules.tombstones.len(),
            ..TableStats::default()
        };
        let mut span = |(oldest, newest): (SeenAt, SeenAt)| {
            stats.oldest = Some(stats.oldest.map_or(oldest, |other| other.min(oldest)));
            stats.newest = stats.newest.max(Some(newest));
        };

        for side in Side::BOTH {
            for segment in table.segments(side) {
                let header = &segment.header;
                stats.segments += 1;
                stats.bytes += header.file_len();
                if side == Side::Id {
                    stats.rows += header.rows;
                }
                span((header.oldest, header.newest));
            }
        }
        for memtable in table.memtables() {
            stats.rows += memtable.rows();
            stats.memtable_rows += memtable.rows();
            stats.memtable_bytes += memtable.bytes() as u64;
            memtable.span().into_iter().for_each(&mut span);
        }
        Ok(stats)
    }
}
