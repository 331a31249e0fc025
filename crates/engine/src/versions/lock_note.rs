//! The note in LOCK: the process that writes, or wrote last, and the generation that was published last.
//!
//! It is written after the manifest is durable. Only the first note of a store is synced. A manifest that is
//! older than the note is not the last one that was published. Must not know the lock itself.

use super::{Manifest, sealed};
use crate::identity::Identity;
use idmatch_store::{ErrorKind, Result, now};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::OnceLock;

const KIND: &str = "lock";

/// The note has always this length, so that it is replaced by one write.
const NOTE_BYTES: usize = 512;

/// At most this many characters of the program's name are noted.
const PROGRAM_CHARS: usize = 64;

/// The content of LOCK.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockNote {
    pub(crate) store: Identity,
    pub(crate) pid: u32,
    /// The program and what it does, such as `idmatch load`.
    pub(crate) program: String,
    /// When it began to write, in milliseconds since 1970.
    pub(crate) since: u64,
    /// The generation that was published last.
    pub(crate) generation: u64,
    /// Unnamed files with smaller numbers stay: they existed when a writer found no note. 0: no unnamed file
    /// stays.
    pub(crate) kept_before: u64,
}

/// The program that this process runs, and the time at which that was noted.
static PROCESS: OnceLock<(String, u64)> = OnceLock::new();

/// Names the program that this process runs, such as `idmatch load`, for other processes that want to write
/// the store meanwhile. The first name counts.
pub fn name_process(program: &str) {
    let program = program.chars().filter(|c| !c.is_control()).take(PROGRAM_CHARS).collect();
    PROCESS.set((program, now().millis())).ok();
}

/// The program that this process runs, and the time at which that was noted.
fn this_process() -> &'static (String, u64) {
    PROCESS.get_or_init(|| {
        let path = std::env::current_exe().ok();
        let name = path.as_deref().and_then(Path::file_name).unwrap_or_default();
        let name = name.to_string_lossy().chars().take(PROGRAM_CHARS).collect();
        (name, now().millis())
    })
}

/// The program that this process runs, such as `idmatch load`.
pub(super) fn program() -> String {
    this_process().0.clone()
}

impl LockNote {
    /// The note of this process.
    pub(crate) fn of_this_process(manifest: &Manifest, kept_before: u64) -> LockNote {
        let (program, since) = this_process().clone();
        let (store, generation) = (manifest.store, manifest.generation);
        LockNote { store, pid: std::process::id(), program, since, generation, kept_before }
    }

    /// Reads a note; `None` for one that is damaged, or not there.
    ///
    /// # Errors
    /// `UnsupportedFormat`: a later version decides which files stay.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Option<LockNote>> {
        match sealed::unseal(KIND, path, bytes) {
            Ok((note, _)) => Ok(Some(note)),
            Err(e) if e.kind() == ErrorKind::UnsupportedFormat => Err(e),
            Err(_) => Ok(None),
        }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut json = sealed::to_json(KIND, self)?;
        let (unpadded, _) = sealed::seal(KIND, &json);
        let padding = NOTE_BYTES.saturating_sub(unpadded.len());
        json.extend(std::iter::repeat_n(' ', padding));
        Ok(sealed::seal(KIND, &json).0)
    }
}
