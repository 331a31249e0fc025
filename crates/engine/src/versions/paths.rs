//! The fixed paths in a store's folder.

use crate::disk::{Disk, io_error};
use crate::identity::Identity;
use idmatch_store::Result;
use std::io;
use std::path::Path;

/// The lock file of the process that writes.
pub(crate) const LOCK: &str = "LOCK";
/// The folder of segments and tombstone files.
pub(crate) const SEGMENTS: &str = "segments";
/// The folder of the files of write sessions and repairs.
pub(crate) const SCRATCH: &str = "scratch";
/// The folder of sessions that several processes stage.
pub(crate) const STAGING: &str = "staging";
/// The folder of journal files.
pub(crate) const JOURNAL: &str = "journal";

/// The folder of checkpoints.
pub(crate) const CHECKPOINTS: &str = "checkpoints";

/// The instant, in milliseconds since 1970, from which a checkpoint of this name may be removed; `None` for
/// any other name.
pub(crate) fn checkpoint_until(name: &str) -> Option<u64> {
    let (until, id) = name.split_once('-')?;
    Identity::try_from(id.to_owned()).ok()?;
    until.parse().ok()
}

/// The file among the scratch files that is locked as long as a write session lives. The names of the session's
/// files begin with its identity.
pub(crate) fn staging_lock(session: Identity) -> String {
    format!("{session:?}.lock")
}

/// The session of such a lock file.
pub(super) fn session_of(staging_lock: &str) -> Option<&str> {
    staging_lock.strip_suffix(".lock")
}

/// The names in a folder; none if there is no such folder.
pub(crate) fn list(disk: &dyn Disk, folder: &Path) -> Result<Vec<String>> {
    match disk.list(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|e| io_error("list", folder, e)),
    }
}

/// A name in a folder that neither a first write nor a failed backup can have left there.
pub(crate) fn foreign_file(disk: &dyn Disk, root: &Path) -> Result<Option<String>> {
    let own = ["MANIFEST.new", LOCK, SEGMENTS, SCRATCH, STAGING, JOURNAL, CHECKPOINTS];
    let foreign = list(disk, root)?.into_iter().find(|name| !own.contains(&name.as_str()));
    let inside = |folder| list(disk, &root.join(folder)).map(|names| names.into_iter().next());
    Ok(match foreign {
        Some(name) => Some(name),
        None => inside(SEGMENTS)?.or(inside(JOURNAL)?),
    })
}
