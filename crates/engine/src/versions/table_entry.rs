//! Table files: the entry of one table in the manifest, in a file of its own. They are immutable, so that a
//! publication writes only the files of the tables that it changes.

use super::sealed;
use crate::disk::{Disk, corrupt, io_error};
use crate::identity::{Hex64, Identity};
use crate::segment::SegmentInfo;
use crate::tombstones::TombstoneFile;
use idmatch_model::{Keep, Period, SeenAt, TableName, TableOptions};
use idmatch_store::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

const KIND: &str = "table";

/// The time for which a former retention counts: a retention that is set back within a day shows all rows
/// again.
const KEPT_MS: u64 = 24 * 3_600_000;

/// The entry of a table file in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableFile {
    pub(crate) name: TableName,
    /// The file's name in the folder of segments.
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// The checksum of its JSON.
    pub(crate) sum: Hex64,
}

/// A table: the content of a table file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableEntry {
    pub(crate) id: Identity,
    pub(crate) name: TableName,
    pub(crate) options: StoredOptions,
    /// The generation of the store that changed the table last.
    pub(crate) changed: u64,
    /// Retentions that are no longer in force, but still decide which rows compactions drop.
    pub(crate) kept: Vec<KeptRetention>,
    /// The number of replaces of the table so far.
    pub(crate) epoch: u64,
    /// A replace that runs.
    pub(crate) fence: Option<Fence>,
    /// Marks of rows that loads have deleted.
    pub(crate) deletes: Vec<DeletesFile>,
    /// The segments of loads that were undone or replaced, until they are removed.
    pub(crate) put_aside: Vec<PutAside>,
    pub(crate) next_load: u64,
    /// Oldest first.
    #[serde(rename = "erasures")]
    pub(crate) tombstones: Vec<TombstoneFile>,
    /// In the order in which they were published.
    pub(crate) segments: Vec<SegmentInfo>,
}

/// The options of a table as they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredOptions {
    pub(crate) keep: Keep,
    pub(crate) retention: Option<Period>,
    /// The time for which rows that a replace or an undo takes away can be brought back.
    pub(crate) undo_for: Option<Period>,
}

/// A former retention. Compactions drop no row that it shows until an instant, in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptRetention {
    pub(crate) retention: Option<Period>,
    pub(crate) until: u64,
}

/// A replace that runs: its session, and the epoch that it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fence {
    pub(crate) session: Identity,
    pub(crate) epoch: u64,
}

/// A file of delete marks of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeletesFile {
    pub(crate) file: String,
    pub(crate) load: u64,
    pub(crate) sum: Hex64,
}

/// Segments of a load that are not read any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutAside {
    pub(crate) load: u64,
    pub(crate) epoch: u64,
    pub(crate) segments: Vec<SegmentInfo>,
    pub(crate) until: u64,
}

impl StoredOptions {
    /// The options that a table is made with.
    pub(crate) fn table_options(&self) -> TableOptions {
        TableOptions { keep: self.keep, retention: self.retention.clone() }
    }
}

impl TableEntry {
    /// A new table.
    pub(crate) fn new(id: Identity, name: TableName, options: &TableOptions) -> TableEntry {
        let TableOptions { keep, retention } = options.clone();
        TableEntry {
            id,
            name,
            options: StoredOptions { keep, retention, undo_for: None },
            changed: 0,
            kept: Vec::new(),
            epoch: 0,
            fence: None,
            deletes: Vec::new(),
            put_aside: Vec::new(),
            next_load: 1,
            tombstones: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// Changes the retention; `now` is in milliseconds since 1970.
    pub(crate) fn set_retention(&mut self, retention: Option<Period>, now: u64) {
        if self.options.retention != retention {
            let former = std::mem::replace(&mut self.options.retention, retention);
            self.kept.retain(|kept| kept.retention != former);
            let until = now.saturating_add(KEPT_MS);
            self.kept.push(KeptRetention { retention: former, until });
        }
    }

    /// The oldest date that compactions keep at a time: by the longest of the present and the former
    /// retentions.
    pub(crate) fn oldest_kept(&self, now: SeenAt) -> SeenAt {
        let former = self.kept.iter().filter(|kept| now.millis() < kept.until);
        let retentions = former.map(|kept| &kept.retention).chain([&self.options.retention]);
        let oldest = |retention: &Option<Period>| retention.as_ref().map(|r| r.before(now));
        retentions.map(oldest).min().flatten().unwrap_or(SeenAt::EPOCH)
    }

    /// Forgets the former retentions that no longer count.
    pub(super) fn prune_kept(&mut self, now: u64) {
        self.kept.retain(|kept| now < kept.until);
    }

    /// Adds segments of new rows that were made with these tombstones. Segments that were made with older
    /// tombstones may have rows that were erased since; `now` is noted as the time of that.
    pub(crate) fn add(
        &mut self,
        segments: Vec<SegmentInfo>,
        made_with: &[TombstoneFile],
        now: u64,
    ) {
        self.add_to_epoch(self.epoch, segments, made_with, now);
    }

    /// Adds segments with rows of an epoch, as [`TableEntry::add`] does.
    pub(crate) fn add_to_epoch(
        &mut self,
        epoch: u64,
        segments: Vec<SegmentInfo>,
        made_with: &[TombstoneFile],
        now: u64,
    ) {
        let erased_since = (self.tombstones != made_with).then_some(now);
        self.segments.extend(segments.into_iter().map(|segment| SegmentInfo {
            erased_since,
            epoch,
            ..segment
        }));
    }

    /// The files of the segments by epoch. There is more than one epoch only while a replace runs, and
    /// compactions keep them apart.
    pub(crate) fn files_by_epoch(&self) -> BTreeMap<u64, HashSet<&str>> {
        let mut files: BTreeMap<u64, HashSet<&str>> = BTreeMap::new();
        for segment in &self.segments {
            files.entry(segment.epoch).or_default().insert(&segment.file);
        }
        files
    }

    /// Begins a replace: rows that are published from now on belong to a new epoch, and stay.
    pub(crate) fn begin_replace(&mut self, session: Identity) -> Fence {
        self.give_up_replace(None);
        self.epoch += 1;
        let fence = Fence { session, epoch: self.epoch };
        self.fence.insert(fence).clone()
    }

    /// Ends a replace: the segments of earlier epochs are removed.
    ///
    /// # Errors
    /// `Expired` if another replace has begun, or a repair has ended this one.
    pub(crate) fn end_replace(&mut self, fence: &Fence) -> Result<()> {
        if self.fence.take_if(|there| there == fence).is_none() {
            return Err(Error::replace_ended(&self.name));
        }
        self.segments.retain(|segment| segment.epoch >= fence.epoch);
        Ok(())
    }

    /// Ends a replace without a change: the replace of this session, or any replace.
    pub(crate) fn give_up_replace(&mut self, session: Option<Identity>) {
        let is_it = |fence: &mut Fence| session.is_none_or(|session| fence.session == session);
        if self.fence.take_if(is_it).is_some() {
            let epoch = self.epoch;
            self.segments.iter_mut().for_each(|segment| segment.epoch = epoch);
        }
    }

    /// The files that the table needs, each with its ending.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let put_aside = self.put_aside.iter().flat_map(|aside| &aside.segments);
        let segments = self.segments.iter().chain(put_aside).map(|s| (s.file.as_str(), "seg"));
        let tombstones = self.tombstones.iter().map(|file| (file.file.as_str(), "era"));
        let deletes = self.deletes.iter().map(|file| (file.file.as_str(), "era"));
        segments.chain(tombstones).chain(deletes)
    }

    /// Writes the table as a new file, durably; its name is not durable yet.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn write(&self, disk: &dyn Disk, folder: &Path, file: String) -> Result<TableFile> {
        let path = folder.join(&file);
        let (bytes, sum) = sealed::seal(KIND, &sealed::to_json(KIND, self)?);
        let write = || {
            let mut file = disk.create(&path)?;
            file.write_all(&bytes)?;
            file.sync()
        };
        write().map_err(|e| io_error("write", &path, e))?;
        Ok(TableFile { name: self.name.clone(), file, bytes: bytes.len() as u64, sum })
    }

    /// Reads the bytes of a table file.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<(TableEntry, Hex64)> {
        sealed::unseal(KIND, path, bytes)
    }

    /// The bytes of a table file.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        Ok(sealed::seal(KIND, &sealed::to_json(KIND, self)?).0)
    }
}

impl TableFile {
    /// Reads the table that the manifest names by this file.
    ///
    /// # Errors
    /// `Io`; `Corrupt`, also for another file than the manifest names; `UnsupportedFormat`.
    pub(super) fn read(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        id: Identity,
    ) -> std::io::Result<Result<Arc<TableEntry>>> {
        let path = folder.join(&self.file);
        let bytes = disk.read(&path)?;
        Ok(TableEntry::decode(&path, &bytes).and_then(|(entry, sum)| {
            let is_named = (bytes.len() as u64, sum) == (self.bytes, self.sum);
            match is_named && entry.id == id && entry.name == self.name {
                true => Ok(Arc::new(entry)),
                false => {
                    Err(corrupt(&path, 0, "this is another table file than the manifest names"))
                }
            }
        }))
    }
}
