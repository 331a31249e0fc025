//! The bulk loader: one load at a time, published in one change of the manifest.

use super::{LoadPlace, load};
use crate::compaction::Compactor;
use crate::sync::{Rank, RankedGuard, RankedMutex};
use crate::tombstones::RowRules;
use crate::versions::VersionSet;
use crate::write::WritePath;
use crate::writer_lock::WriterLock;
use idmatch_model::{TableName, TableOptions};
use idmatch_store::{Call, ObservationSource, Result, now};
use std::sync::Arc;

/// Loads into the tables of a store.
pub(crate) struct BulkLoader {
    versions: Arc<VersionSet>,
    lock: Arc<WriterLock>,
    writes: Arc<WritePath>,
    compactor: Arc<Compactor>,
    /// Held by the user of the scratch folder.
    scratch: RankedMutex<()>,
}

impl BulkLoader {
    pub(crate) fn new(
        versions: Arc<VersionSet>,
        lock: Arc<WriterLock>,
        writes: Arc<WritePath>,
        compactor: Arc<Compactor>,
    ) -> BulkLoader {
        let scratch = RankedMutex::new(Rank::Operation, ());
        BulkLoader { versions, lock, writes, compactor, scratch }
    }

    /// Waits for the scratch folder. A load needs it, and so does a repair.
    ///
    /// # Errors
    /// `Cancelled`.
    pub(crate) fn lock_scratch(&self, call: &Call) -> Result<RankedGuard<'_, ()>> {
        self.scratch.lock_while(|| call.check())
    }

    /// Loads into a table, which is made if there is none. All of the source is published, or nothing.
    ///
    /// # Errors
    /// Those of the source and of the disk; `Busy` while another process writes; `Cancelled`.
    pub(crate) fn load(
        &self,
        name: &TableName,
        options: &TableOptions,
        source: &dyn ObservationSource,
        call: &Call,
    ) -> Result<()> {
        let _scratch = self.lock_scratch(call)?;
        let _guard = self.lock.acquire()?;
        let versions = &self.versions;
        let _collected = versions.collect_obsolete();
        let scratch = versions.make_scratch()?;
        let version = versions.current();
        let table = version.tables.get(name);
        let options = table.map_or(options, |table| &table.options);
        let id = versions.table_id(name)?;
        let new = || RowRules::new(id, version.manifest.hash_seed(), options.keep);
        let row_rules = table.map_or_else(new, |table| table.row_rules.clone());
        versions
            .add_segments(
                |names| {
                    let place = LoadPlace {
                        disk: &*versions.disk,
                        segments: &versions.segments(),
                        scratch: &scratch,
                        names,
                        limits: versions.limits,
                        call,
                    };
                    load(&place, &row_rules, source)
                },
                |segments| {
                    self.writes.sync_upserts()?;
                    versions.publish(|manifest| {
                        let made_with = version.manifest.tombstone_files(name);
                        let table = manifest.entry(name, id, options)?;
                        table.add(segments, made_with, now().millis());
                        Ok(())
                    })
                },
            )
            .inspect_err(|_| versions.remove_scratch())?;
        self.compactor.compact_backlog(call);
        Ok(())
    }
}
