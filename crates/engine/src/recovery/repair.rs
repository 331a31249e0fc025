//! Repair of a table in a store that opens.

use super::rewrite::rewrite;
use crate::compaction::Compactor;
use crate::identity::Identity;
use crate::load::BulkLoader;
use crate::verify::verify_content;
use crate::versions::VersionSet;
use crate::write::WritePath;
use crate::writer_lock::WriterLock;
use idmatch_store::{Call, Error, ErrorKind, Finding, Repaired, Result, now};
use std::collections::HashSet;

/// The owners that a repair needs.
pub(crate) struct Repair<'a> {
    pub(crate) versions: &'a VersionSet,
    pub(crate) lock: &'a WriterLock,
    pub(crate) writes: &'a WritePath,
    pub(crate) compactor: &'a Compactor,
    pub(crate) loader: &'a BulkLoader,
}

impl Repair<'_> {
    /// Verifies a table and repairs it. Rows that are damaged in both directions may be lost: that needs
    /// `accept_loss`. Upserts go on meanwhile; loads wait.
    ///
    /// # Errors
    /// `Corrupt` if rows would be lost, or if problems are left; `Busy` while another process writes, and where the
    /// table is replaced meanwhile; `Io`; `Cancelled`, and the table is as it was.
    pub(crate) fn table(&self, id: Identity, accept_loss: bool, call: &Call) -> Result<Repaired> {
        let _sorting = self.loader.lock_sorting(call)?;
        let _guard = self.lock.acquire_for(call)?;
        self.writes.flush_all(call)?;
        let _paused = self.compactor.pause(call)?;
        let versions = self.versions;
        let _collected = versions.collect_obsolete();
        let version = versions.current();
        let table = versions.table_of(&version, id)?;
        let made_with = version.manifest.tombstone_files(id);
        let findings = verify_content(versions, id, call)?;
        if findings.is_empty() {
            return Ok(Repaired::default());
        }
        let read: HashSet<&str> = table.segment_files().collect();
        let mut lost_at_most = 0;
        versions.add_segments(
            |names| {
                let (made, lost) = rewrite(versions, names, table, [0, 0], accept_loss, call)?;
                lost_at_most = lost;
                Ok(made)
            },
            |made| {
                versions.publish(|manifest| {
                    let entry = manifest.table_mut(id)?;
                    let before = entry.segments.len();
                    // Rows that came meanwhile stay.
                    entry.segments.retain(|segment| !read.contains(segment.file.as_str()));
                    if before - entry.segments.len() < read.len() {
                        let what = format!(
                            "table {} was replaced meanwhile; repair it again",
                            table.name()
                        );
                        return Err(Error::new(ErrorKind::Busy, what));
                    }
                    entry.give_up_replace(None);
                    entry.add(made, made_with, now().millis());
                    Ok(())
                })
            },
        )?;
        // The repair is published already, so this check cannot be cancelled.
        let left = verify_content(versions, id, &Call::default())?;
        match left.first() {
            None => Ok(Repaired { findings, lost_at_most }),
            Some(Finding { place, problem }) => Err(Error::new(
                ErrorKind::Corrupt,
                format!("{place}: {problem}; all else of table {} was repaired", table.name()),
            )),
        }
    }
}
