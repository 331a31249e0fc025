//! The bulk loader: one load at a time, published in one change of the manifest.

use super::{LoadPlace, load};
use crate::compaction::Compactor;
use crate::identity::Identity;
use crate::sync::{Rank, RankedGuard, RankedMutex};
use crate::versions::VersionSet;
use crate::write::WritePath;
use crate::writer_lock::WriterLock;
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

    /// Loads into a table. All of the source is published, or nothing; the table's options are those of then.
    ///
    /// # Errors
    /// Those of the source and of the disk; `TableNotFound` if the table is dropped meanwhile; `Busy` while
    /// another process writes; `Cancelled`.
    pub(crate) fn load(
        &self,
        id: Identity,
        source: &dyn ObservationSource,
        call: &Call,
    ) -> Result<()> {
        let _scratch = self.lock_scratch(call)?;
        let _guard = self.lock.acquire()?;
        let versions = &self.versions;
        let _collected = versions.collect_obsolete();
        let scratch = versions.make_scratch()?;
        let version = versions.current();
        // No version is held, or the files that a load replaces would outlive it.
        let row_rules = versions.table_of(&version, id)?.row_rules.clone();
        let made_with = version.manifest.tombstone_files(id).to_vec();
        drop(version);
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
                        manifest.table_mut(id)?.add(segments, &made_with, now().millis());
                        Ok(())
                    })
                },
            )
            .inspect_err(|_| versions.remove_scratch())?;
        self.compactor.compact_backlog(call);
        Ok(())
    }
}
