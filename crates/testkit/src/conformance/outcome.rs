//! The outcome of a run of cases: how much has run, and where a backend was wrong.

use super::compare::Mismatch;
use std::fmt;

/// How much was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Case files read.
    pub files: usize,
    /// Cases run, each in all its ways.
    pub cases: usize,
    /// Questions asked, counted in every way.
    pub questions: usize,
    /// Cases, each in one way, that ended at a step that the backend does not support.
    pub unsupported: usize,
}

/// Where a backend does not answer as the cases say.
#[derive(Debug)]
pub struct Failures {
    pub(super) tally: Tally,
    pub(super) mismatches: Vec<Mismatch>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { files, cases, questions, unsupported } = self;
        write!(f, "{questions} questions in {cases} cases of {files} files")?;
        match unsupported {
            0 => Ok(()),
            count => write!(f, "; {count} runs ended at an unsupported step"),
        }
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
