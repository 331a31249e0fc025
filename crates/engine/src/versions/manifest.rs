//! The manifest: the tables of a store, and the segments of each.
//!
//! One small file, replaced atomically. Its first line is
//! `idmatch-manifest <format> <checksum of the rest, 16 hex digits>`; the rest is JSON.

use crate::disk::Disk;
use crate::disk::{corrupt, io_error};
use crate::file_name::file_number;
use crate::segment::SegmentInfo;
use crate::tombstones::TombstoneFile;
use idmatch_model::{ErasureKey, ErasureKeyError, TableName, TableOptions};
use idmatch_store::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

const NAME: &str = "MANIFEST";
const NEW_NAME: &str = "MANIFEST.new";
const MAGIC: &str = "idmatch-manifest";
const FORMAT: &str = "1";

/// The content of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The number of the next segment file.
    pub(crate) next_file: u64,
    #[serde(default)]
    pub(crate) journal: JournalEntry,
    /// The secret key of tombstone hashes; made with the first tombstone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) erasure_key: Option<String>,
    pub(crate) tables: BTreeMap<TableName, TableEntry>,
}

/// What the manifest says of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct JournalEntry {
    /// The number of the first file with rows that are in no segment. Earlier files are orphans.
    pub(crate) first: u64,
    /// The last file when the store was closed, and its length.
    pub(crate) closed: Option<(u64, u64)>,
}

/// What the manifest says of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct TableEntry {
    pub(crate) options: TableOptions,
    pub(crate) segments: Vec<SegmentInfo>,
    /// Oldest first.
    #[serde(rename = "erasures", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tombstones: Vec<TombstoneFile>,
}

impl TableEntry {
    /// Adds segments that were made with these tombstones. Segments made with older ones may have rows that
    /// were erased since.
    pub(crate) fn add(&mut self, segments: Vec<SegmentInfo>, made_with: &[TombstoneFile]) {
        let erased = self.tombstones != made_with;
        self.segments.extend(segments.into_iter().map(|segment| SegmentInfo { erased, ..segment }));
    }
}

impl Manifest {
    /// Where the manifest of a store is.
    pub(crate) fn path(root: &Path) -> PathBuf {
        root.join(NAME)
    }

    /// Reads the manifest of a store; `None` if there is none.
    pub(crate) fn read(disk: &dyn Disk, root: &Path) -> Result<Option<Manifest>> {
        let path = Manifest::path(root);
        match disk.read(&path) {
            Ok(bytes) => Manifest::decode(&path, &bytes).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io_error("read", &path, e)),
        }
    }

    /// Replaces the manifest of a store, durably.
    ///
    /// # Errors
    /// `Io`. If the last step fails, the new manifest may be in place without being durable.
    pub(crate) fn publish(&self, disk: &dyn Disk, root: &Path) -> Result<()> {
        let (path, new) = (Manifest::path(root), root.join(NEW_NAME));
        let bytes = self.encode()?;
        let write = || {
            let mut file = disk.create(&new)?;
            file.write_all(&bytes)?;
            file.sync()
        };
        write().map_err(|e| io_error("write", &new, e))?;
        disk.rename(&new, &path).map_err(|e| io_error("replace", &path, e))?;
        disk.sync_dir(root).map_err(|e| {
            let what = format!(
                "cannot sync {}: the change is in place, but a power failure may undo it; \
                 repeat it, which is safe",
                root.display()
            );
            Error::with_source(ErrorKind::Io, what, e)
        })
    }

    /// Every file the store has, by name in the folder of segments.
    pub(crate) fn files(&self) -> HashSet<&str> {
        let tables = || self.tables.values();
        let segments = tables().flat_map(|table| &table.segments).map(|segment| &segment.file);
        let tombstones =
            tables().flat_map(|table| &table.tombstones).map(|tombstones| &tombstones.file);
        segments.chain(tombstones).map(String::as_str).collect()
    }

    /// The tombstone files of a table; none if there is no such table.
    pub(crate) fn tombstone_files(&self, table: &TableName) -> &[TombstoneFile] {
        self.tables.get(table).map_or(&[], |entry| &entry.tombstones)
    }

    /// The key of tombstone hashes.
    pub(crate) fn erasure_key(&self) -> Result<Option<ErasureKey>> {
        let parsed = self.erasure_key.as_deref().map(str::parse).transpose();
        parsed.map_err(|e: ErasureKeyError| {
            Error::with_source(ErrorKind::Corrupt, "the manifest is damaged", e)
        })
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|e| Error::with_source(ErrorKind::Io, "cannot encode the manifest", e))?;
        let sum = XxHash3_64::oneshot(json.as_bytes());
        Ok(format!("{MAGIC} {FORMAT} {sum:016x}\n{json}").into_bytes())
    }

    /// Reads the bytes of a manifest.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Manifest> {
        let line_end = bytes.iter().position(|byte| *byte == b'\n');
        let (line, json) = match line_end.and_then(|at| bytes.split_at_checked(at)) {
            Some((line, rest)) => (line, rest.get(1..).unwrap_or_default()),
            None => return Err(corrupt(path, 0, "this is no manifest")),
        };
        let line = String::from_utf8_lossy(line);
        let mut words = line.split(' ');
        let format = match (words.next(), words.next()) {
            (Some(MAGIC), Some(format)) if is_number(format) => format,
            _ => return Err(corrupt(path, 0, "this is no manifest")),
        };
        // Checked first: the rest may have another format.
        if format != FORMAT {
            return Err(Error::new(
                ErrorKind::UnsupportedFormat,
                format!(
                    "{} has manifest format {format}, this version reads format {FORMAT}; \
                     use the version of idmatch that wrote it, or a later one",
                    path.display()
                ),
            ));
        }
        let sum = format!("{:016x}", XxHash3_64::oneshot(json));
        if (words.next(), words.next()) != (Some(&sum), None) {
            return Err(corrupt(path, 0, "the checksum of the manifest is wrong"));
        }
        let manifest: Manifest = serde_json::from_slice(json).map_err(|e| {
            Error::with_source(
                ErrorKind::Corrupt,
                format!("{}, offset {}: the manifest is no valid JSON", path.display(), line.len()),
                e,
            )
        })?;
        manifest.check_files(path)?;
        Ok(manifest)
    }

    /// Refuses names that no file of a store has, and a file that two entries name: nothing is read or
    /// removed by such a manifest.
    fn check_files(&self, path: &Path) -> Result<()> {
        let mut named = HashSet::new();
        for table in self.tables.values() {
            let segments = table.segments.iter().map(|segment| (&segment.file, "seg"));
            let tombstones = table.tombstones.iter().map(|tombstones| (&tombstones.file, "era"));
            for (file, ending) in segments.chain(tombstones) {
                let number = file_number(file, ending).filter(|number| *number < self.next_file);
                if number.is_none_or(|number| !named.insert(number)) {
                    let what = format!(
                        "the manifest names {file:?}, which is no {ending} file of its own"
                    );
                    return Err(corrupt(path, 0, &what));
                }
            }
        }
        Ok(())
    }
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}
