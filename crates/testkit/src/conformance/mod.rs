//! Runs the cases of `spec/cases/` against a backend.
//!
//! The cases are data; `spec/cases/README.md` describes their format. Every case is
//! played several times: its loads as they are written, reversed, and repeated, in large
//! and small batches, with the store opened anew before the questions. The answers must
//! be the same each time.
//!
//! ```no_run
//! use idmatch_testkit::{MemoryStore, conformance};
//! use std::{path::Path, sync::Arc};
//!
//! let store = Arc::new(MemoryStore::new());
//! let tally = conformance::run(Path::new("spec/cases"), &|_| Ok(store.clone()));
//! match tally {
//!     Ok(tally) => println!("{tally}"),
//!     Err(failures) => panic!("{failures}"),
//! }
//! ```

mod ask;
mod compare;
mod format;
mod input;
mod load;
mod play;
mod population;
mod tables;
mod value;
mod ways;

use compare::Mismatch;
use format::CaseFile;
use idmatch_store::{Error, ErrorKind, Result, Store};
use play::Player;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
pub use ways::Ways;

/// Opens the store with this number, in which some of the cases are played: the same one each time. It
/// has no tables before its first opening. The runner drops one opening before it asks for the next,
/// and when it asks for a store it no longer needs the ones before. All may be one; but a case makes a
/// table, and a store of hundreds may be slow to open.
pub type OpenStore<'a> = &'a dyn Fn(usize) -> Result<Arc<dyn Store>>;

/// How much was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Case files read.
    pub files: usize,
    /// Cases played, each in all its ways.
    pub cases: usize,
    /// Questions asked, those of every way counted.
    pub questions: usize,
}

/// Where a backend does not answer as the cases say.
#[derive(Debug)]
pub struct Failures {
    tally: Tally,
    mismatches: Vec<Mismatch>,
}

/// Plays all case files of a directory, in all ways, in the stores that `open` opens.
///
/// # Errors
/// Every mismatch, each with file, case, question, what was expected and what was got.
/// A file that cannot be read is one, and so is a run in which no question was asked.
pub fn run(directory: &Path, open: OpenStore<'_>) -> Result<Tally, Failures> {
    let mut player = Player::new(open, Ways::ALL);
    match case_files(directory) {
        Ok(paths) => {
            for path in paths {
                player.play_file(&file_name(&path), read_cases(&path));
            }
        }
        Err(error) => player.play_file(&directory.to_string_lossy(), Err(error)),
    }
    player.play_table_rules();
    judged(player)
}

/// Plays one case file in some ways.
///
/// # Errors
/// As for [`run`].
pub fn run_file(path: &Path, ways: Ways, open: OpenStore<'_>) -> Result<Tally, Failures> {
    let mut player = Player::new(open, ways);
    player.play_file(&file_name(path), read_cases(path));
    judged(player)
}

/// Checks the rules for making and finding tables, which no case can express.
///
/// # Errors
/// As for [`run`].
pub fn run_table_rules(open: OpenStore<'_>) -> Result<(), Failures> {
    let mut player = Player::new(open, Ways::ALL);
    player.play_table_rules();
    let (tally, mismatches) = player.finish();
    if mismatches.is_empty() { Ok(()) } else { Err(Failures { tally, mismatches }) }
}

fn judged(player: Player<'_>) -> Result<Tally, Failures> {
    let (tally, mismatches) = player.finish();
    if mismatches.is_empty() && tally.questions > 0 {
        return Ok(tally);
    }
    Err(Failures { tally, mismatches })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The case files of a directory, by name.
///
/// # Errors
/// The directory cannot be listed.
pub fn case_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = |e| {
        let what = format!("cannot list {}", directory.display());
        Error::with_source(ErrorKind::Io, what, e)
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read_cases(path: &Path) -> Result<CaseFile> {
    let what = || format!("cannot read {}", path.display());
    let text = std::fs::read(path).map_err(|e| Error::with_source(ErrorKind::Io, what(), e))?;
    serde_json::from_slice(&text).map_err(|e| Error::with_source(ErrorKind::Source, what(), e))
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { files, cases, questions } = self;
        write!(f, "{questions} questions in {cases} cases of {files} files")
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tally.questions == 0 {
            writeln!(f, "no question was asked")?;
        }
        writeln!(f, "{} mismatches; {}", self.mismatches.len(), self.tally)?;
        self.mismatches.iter().try_for_each(|mismatch| write!(f, "\n{mismatch}"))
    }
}

impl std::error::Error for Failures {}
