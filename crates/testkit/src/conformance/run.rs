//! Reads case files and has them run.

use super::format::CaseFile;
use super::outcome::{Failures, Tally};
use super::runner::{Runner, StoreFactory};
use super::ways::Ways;
use idmatch_store::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Runs all case files of a directory, in some ways, in the stores that `open` opens.
///
/// # Errors
/// Every mismatch, each with file, case, question, the expected and the actual result. A file that cannot be
/// read is a mismatch, and so is a run in which no question was asked.
pub fn run(directory: &Path, ways: Ways, open: StoreFactory<'_>) -> Result<Tally, Failures> {
    let mut runner = Runner::new(open, ways, 0);
    match case_files(directory) {
        Ok(paths) => {
            for path in paths {
                runner.run_file(&file_name(&path), read_cases(&path));
            }
        }
        Err(error) => runner.run_file(&directory.to_string_lossy(), Err(error)),
    }
    runner.run_table_rules();
    judged(runner)
}

/// Runs one case file in some ways. A change of unknown outcome is repeated up to `repeats` times:
/// 0 for every store but slow servers, which may need more time than a case can wait.
///
/// # Errors
/// As for [`run`].
pub fn run_file(
    path: &Path,
    ways: Ways,
    repeats: usize,
    open: StoreFactory<'_>,
) -> Result<Tally, Failures> {
    let mut runner = Runner::new(open, ways, repeats);
    runner.run_file(&file_name(path), read_cases(path));
    judged(runner)
}

/// Checks the rules for making and finding tables, which no case can express.
///
/// # Errors
/// As for [`run`].
pub fn run_table_rules(open: StoreFactory<'_>) -> Result<(), Failures> {
    let mut runner = Runner::new(open, Ways::ALL, 0);
    runner.run_table_rules();
    let (tally, mismatches) = runner.finish();
    if mismatches.is_empty() { Ok(()) } else { Err(Failures { tally, mismatches }) }
}

fn judged(runner: Runner<'_>) -> Result<Tally, Failures> {
    let (tally, mismatches) = runner.finish();
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
