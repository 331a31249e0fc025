//! Snapshots of a directory: one published version, the last commit and one reading of the clock.
//!
//! Must not know how versions change. Invariants:
//! - a snapshot shows of each commit all rows or none, in all tables;
//! - it shows the same rows for as long as it lives, even if they are erased or replaced later: its files
//!   stay.

use super::handle::StoreHandle;
use super::logged::{ResultSizes, logged};
use crate::compaction::pending_bytes;
use crate::cpu;
use crate::encoding::Packer;
use crate::identity::Identity;
use crate::lookup::{KeyLocation, add_answers, locate, pair_dates};
use crate::matching::EngineMatch;
use crate::memtable::Commit;
use crate::scan;
use crate::versions::TableVersion;
use idmatch_model::{Keep, SeenAt, Side, TableId, TableName, TableOptions, Window, check_id};
use idmatch_store::{
    Answers, BatchSource, Call, Counting, Lookup, Match, MatchQuery, MatchSink, Result, ScanQuery,
    ScanRanges, Snapshot, TableSnapshot, TableStats, Version, now,
};
use std::sync::Arc;

/// After this many keys a lookup asks whether its caller has given up.
const KEYS_BETWEEN_CHECKS: usize = 256;

/// A snapshot: all tables at one point. Cheap to clone.
#[derive(Clone)]
pub(super) struct EngineSnapshot {
    owners: Arc<StoreHandle>,
    version: Arc<crate::versions::StoreVersion>,
    last: Commit,
    /// The reading of the clock that the retention uses.
    at: SeenAt,
}

/// A table at one point.
struct EngineTableSnapshot {
    point: EngineSnapshot,
    table: Arc<TableVersion>,
}

impl EngineSnapshot {
    /// A snapshot of all that is published and committed by now. Cost: a microsecond; nothing waits for it.
    pub(super) fn new(owners: &Arc<StoreHandle>) -> EngineSnapshot {
        let (version, last) = owners.versions.point();
        let at = version.manifest.checkpoint_times().map_or_else(now, |(at, _)| at);
        EngineSnapshot { owners: owners.clone(), version, last, at }
    }

    fn named(&self, name: &TableName) -> Result<&Arc<TableVersion>> {
        self.owners.versions.table_named(&self.version, name)
    }

    fn at_table(&self, table: &Arc<TableVersion>) -> Arc<dyn TableSnapshot> {
        Arc::new(EngineTableSnapshot { point: self.clone(), table: table.clone() })
    }

    fn token(&self) -> Version {
        let manifest = &self.version.manifest;
        let journal = self.version.memtables.last().map_or_else(Identity::default, |set| set.id);
        Version {
            store: u128::from_be_bytes(manifest.store.0),
            publication: manifest.publication.0,
            journal: u128::from_be_bytes(journal.0),
            commit: self.last,
        }
    }
}

impl Snapshot for EngineSnapshot {
    fn version(&self) -> Option<Version> {
        Some(self.token())
    }

    fn tables(&self, _: &Call) -> Result<Vec<TableName>> {
        Ok(self.version.names.keys().cloned().collect())
    }

    fn resolve(&self, name: &TableName, _: &Call) -> Result<TableId> {
        Ok(self.named(name)?.row_rules.table.into())
    }

    fn table(&self, id: TableId, _: &Call) -> Result<Arc<dyn TableSnapshot>> {
        Ok(self.at_table(self.owners.versions.table_of(&self.version, id.into())?))
    }

    /// One search: single lookups take this way.
    fn table_named(&self, name: &TableName, _: &Call) -> Result<Arc<dyn TableSnapshot>> {
        Ok(self.at_table(self.named(name)?))
    }
}

impl EngineTableSnapshot {
    /// The part of a window that the retention leaves.
    fn visible_window(&self, window: Window) -> Window {
        self.table.visible_window(window, self.point.at)
    }

    /// The dates of a pair as stored: newest first, repeats included. They are read on the side of the pair
    /// that has fewer rows.
    fn stored_dates(&self, id: &str, partner_id: &str, call: &Call) -> Result<Vec<SeenAt>> {
        cpu::note_foreground();
        check_id(id.as_bytes())?;
        check_id(partner_id.as_bytes())?;
        let mut packers = (Packer::default(), Packer::default());
        let (id, partner_id) =
            (packers.0.pack(id.as_bytes()), packers.1.pack(partner_id.as_bytes()));
        let by_id = locate(&self.table, Side::Id, id, self.point.last)?;
        let by_partner_id = locate(&self.table, Side::PartnerId, partner_id, self.point.last)?;
        let rows = |locations: &[_]| locations.iter().map(KeyLocation::len).sum::<usize>();
        if rows(&by_id) <= rows(&by_partner_id) {
            pair_dates(&by_id, partner_id, call)
        } else {
            pair_dates(&by_partner_id, id, call)
        }
    }
}

impl TableSnapshot for EngineTableSnapshot {
    fn id(&self) -> TableId {
        self.table.row_rules.table.into()
    }

    fn name(&self) -> &TableName {
        self.table.name()
    }

    fn options(&self) -> &TableOptions {
        &self.table.options
    }

    fn version(&self) -> (Option<Version>, SeenAt) {
        (Some(self.point.token()), self.point.at)
    }

    /// Cost: about a microsecond a key whose pages are cached, and one for every few answers.
    fn lookup_many(&self, keys: &[&str], lookup: Lookup, call: &Call) -> Result<Answers> {
        cpu::note_foreground();
        let rules = (self.table.row_rules.keep, self.visible_window(lookup.window));
        let (mut answers, mut packer) = (Answers::new(keys.len()), Packer::default());
        for keys in keys.chunks(KEYS_BETWEEN_CHECKS) {
            call.check()?;
            for key in keys {
                check_id(key.as_bytes())?;
                let key = packer.pack(key.as_bytes());
                let locations = locate(&self.table, lookup.by, key, self.point.last)?;
                add_answers(&locations, rules, lookup.limit, &mut answers, call)?;
            }
        }
        Ok(answers)
    }

    fn last_seen(&self, id: &str, partner_id: &str, call: &Call) -> Result<Option<SeenAt>> {
        let (dates, visible) =
            (self.stored_dates(id, partner_id, call)?, self.visible_window(Window::ALL));
        Ok(dates.first().copied().filter(|date| visible.contains(*date)))
    }

    fn history(&self, id: &str, partner_id: &str, call: &Call) -> Result<Vec<SeenAt>> {
        let (mut dates, visible) =
            (self.stored_dates(id, partner_id, call)?, self.visible_window(Window::ALL));
        dates.dedup();
        if self.table.row_rules.keep == Keep::Last {
            dates.truncate(1);
        }
        dates.retain(|date| visible.contains(*date));
        Ok(dates)
    }

    fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
        call: &Call,
    ) -> Result<Box<dyn Match>> {
        let query = MatchQuery { window: self.visible_window(query.window), ..query };
        let versions = &self.point.owners.versions;
        let matches = |found: &EngineMatch| ResultSizes {
            rows: Some(found.counts().rows),
            ..ResultSizes::default()
        };
        let found = logged("match", self.name().as_str(), matches, || {
            EngineMatch::run(
                &*versions.disk,
                versions.limits.population_bytes,
                (self.table.clone(), self.point.last),
                population,
                query,
                call,
            )
        })?;
        Ok(Box::new(found))
    }

    fn scan_range_of(&self, id: &str) -> usize {
        scan::range_of_id(id, self.table.row_rules.seed)
    }

    /// Cost: the hash partitions (1/256 of the table each) that have one of the scan ranges are read once.
    fn scan(
        &self,
        ranges: &ScanRanges,
        query: ScanQuery,
        sink: &dyn MatchSink,
        call: &Call,
    ) -> Result<()> {
        let query = ScanQuery { window: self.visible_window(query.window), ..query };
        scan::export((&self.table, self.point.last), (ranges, query), sink, call)
    }

    fn stats(&self, counting: Counting, call: &Call) -> Result<TableStats> {
        let table = &self.table;
        let mut stats = TableStats {
            pending_compaction_bytes: pending_bytes(
                table,
                &self.point.version.manifest.clock,
                self.point.owners.versions.limits,
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
                stats.largest_key_rows = stats.largest_key_rows.max(Some(header.largest_key));
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
        stats.distinct = match counting {
            Counting::Metadata => scan::distinct_at_most(table),
            Counting::Sample => scan::distinct(table, self.point.last, stats.rows, call)?,
            Counting::All => scan::distinct(table, self.point.last, 0, call)?,
        };
        Ok(stats)
    }
}
