//! The temporary files of one load: in `scratch/`, or in `staging/SESSION/` for a shared session
//! (`versions::session_folder`). Their names begin with the identity of the load.
//!
//! The load holds a lock file among them for as long as it lives, in any process. The next holder of the
//! writer lock removes the files whose lock is free. Must not know what the files are for.

use crate::disk::{Disk, Lock, io_error};
use crate::identity::Identity;
use crate::versions::{SCRATCH, SessionFolder, VersionSet, staging_lock};
use idmatch_store::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a load. They are removed when this is dropped.
pub(crate) struct StagingFiles {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) id: Identity,
    folder: PathBuf,
    _lock: Box<dyn Lock>,
    /// The process that made it: a fork removes nothing.
    process: u32,
}

impl StagingFiles {
    /// Makes the lock file of a new load. The caller holds the writer lock: another holder might remove the
    /// file.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn new(versions: &VersionSet) -> Result<StagingFiles> {
        let (disk, folder) = (versions.disk.clone(), versions.root.join(SCRATCH));
        disk.create_dir(&folder).map_err(|e| io_error("make", &folder, e))?;
        let id = Identity::random()?;
        let path = folder.join(staging_lock(id));
        let lock = disk.try_lock(&path).map_err(|e| io_error("lock", &path, e))?;
        let taken = || Error::new(ErrorKind::Io, format!("{} is locked", path.display()));
        let _lock = lock.ok_or_else(taken)?;
        Ok(StagingFiles { disk, id, folder, _lock, process: std::process::id() })
    }

    /// The files of a shared session whose lock is held. Removes the files that an earlier commit has left.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn of_session(folder: &SessionFolder, lock: Box<dyn Lock>) -> Result<StagingFiles> {
        let SessionFolder { disk, id, path } = folder.clone();
        let lock_file = staging_lock(id);
        let names = disk.list(&path).map_err(|e| io_error("list", &path, e))?;
        let left = names.iter().filter(|name| is_of(name, id) && **name != lock_file);
        for file in left.map(|name| path.join(name)) {
            disk.remove(&file).map_err(|e| io_error("remove", &file, e))?;
        }
        Ok(StagingFiles { disk, id, folder: path, _lock: lock, process: std::process::id() })
    }

    /// The folder that the files are in.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of a file of this load.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{:?}-{name}", self.id))
    }
}

impl Drop for StagingFiles {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        let names = self.disk.list(&self.folder).unwrap_or_default();
        for name in names.iter().filter(|name| is_of(name, self.id)) {
            // Best effort: the next holder of the writer lock does it again.
            self.disk.remove(&self.folder.join(name)).ok();
        }
    }
}

/// Whether a file is of this load.
fn is_of(name: &str, load: Identity) -> bool {
    name.starts_with(&format!("{load:?}"))
}
