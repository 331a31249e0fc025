//! Loads, and the reports that they must give.

use super::compare::{Difference, shown_error};
use super::format::{Case, ErasureRow, Item, JudgedLoad, Load, ObservationRow};
use super::input::{Batches, Batching};
use super::value::{DateValue, Scope};
use idmatch_store::{
    Call, Error, ErrorKind, Ingest, NewWrite, ObservationSource, Reject, RejectSink, Result,
    Sharing, Table,
};

impl Load {
    pub(super) fn rows(&self) -> &[Item<ObservationRow>] {
        match self {
            Load::Plain(rows) | Load::Judged(JudgedLoad { rows, .. }) => rows,
        }
    }

    /// Whether some rows are made from a pattern.
    fn is_generated(&self) -> bool {
        self.rows().iter().any(|item| matches!(item, Item::Many(_)))
    }
}

impl Case {
    /// Whether its rows are too many to run it in every way.
    pub(super) fn is_large(&self) -> bool {
        self.loads.iter().any(Load::is_generated)
    }
}

/// How rows get into a table.
#[derive(Clone, Copy, Default)]
pub(super) struct Loading {
    /// In reverse order, where no row number is expected.
    pub(super) is_reversed: bool,
    /// By an upsert.
    pub(super) is_upsert: bool,
    /// By a session that another handle stages, twice.
    pub(super) is_shared: bool,
}

/// Loads the rows and compares the report with the case.
pub(super) fn load(
    table: &Table,
    load: &Load,
    how: Loading,
    scope: Scope,
    batching: Batching,
) -> Result<Vec<Difference>> {
    let (strict, rejected, error) = match load {
        Load::Plain(_) => (false, &[][..], None),
        Load::Judged(judged) => (judged.strict, &judged.rejected[..], judged.error.as_deref()),
    };
    let is_reversed = how.is_reversed && rejected.is_empty();
    let mut source = Batches::of_load(load.rows(), is_reversed, scope, batching)?;
    let rows = source.rows() as u64;
    let mut rejects = Rejects::default();
    let ingest = Ingest::new(strict, scope.now, &mut rejects);
    let outcome = if how.is_upsert {
        table.upsert(&ingest.judged(&mut source), None)
    } else if how.is_shared {
        let mut again = Batches::of_load(load.rows(), is_reversed, scope, batching)?;
        let mut ignored = Rejects::default();
        let repeated = Ingest::new(strict, scope.now, &mut ignored);
        let twice =
            [&ingest.judged(&mut source) as &dyn ObservationSource, &repeated.judged(&mut again)];
        load_shared(table, twice)
    } else {
        table.load(&ingest.judged(&mut source))
    };
    let counted = (ingest.rows(), ingest.rejected());
    if let Some(code) = error {
        return Ok(compare_failure(code, outcome).into_iter().collect());
    }
    outcome?;
    let mut differences = Vec::new();
    let expected = (rows, rejected.len() as u64);
    if counted != expected {
        differences.push(Difference {
            expected: format!("(rows, rejected) {expected:?}"),
            got: format!("{counted:?}"),
        });
    }
    differences.extend(compare_rejects(rejected, rejects.0));
    Ok(differences)
}

/// Loads rows as one part of a session, which another handle stages twice.
fn load_shared(table: &Table, twice: [&dyn ObservationSource; 2]) -> Result<()> {
    let (call, id) = (Call::default(), table.snapshot()?.id());
    let session = table.begin(NewWrite { sharing: Sharing::Shared, ..NewWrite::load(id) })?;
    let other = table.store().resume(session.address(), &call)?;
    let mut parts = Vec::new();
    for rows in twice {
        match other.stage(Some(0), rows, &call) {
            Ok(part) => parts.push(part),
            Err(e) => {
                session.abort()?;
                return Err(e);
            }
        }
    }
    session.commit(&parts, &call).map(drop)
}

pub(super) fn compare_failure(code: &str, outcome: Result<()>) -> Option<Difference> {
    let got = match outcome {
        Err(error) if error.kind().code() == code => return None,
        Err(error) => shown_error(&error),
        Ok(()) => "no error".to_owned(),
    };
    Some(Difference { expected: format!("error {code}"), got })
}

fn compare_rejects(expected: &[(u64, String, String)], mut got: Vec<Reject>) -> Option<Difference> {
    got.sort_by_key(|reject| reject.row);
    let is_same = expected.len() == got.len()
        && expected.iter().zip(&got).all(|((row, column, reason), reject)| {
            *row == reject.row && column == reject.column && reject.reason.contains(reason.as_str())
        });
    let shown =
        |reject: &Reject| format!("[{}, {:?}, {:?}]", reject.row, reject.column, reject.reason);
    (!is_same).then(|| Difference {
        expected: format!("rejected {expected:?}"),
        got: got.iter().map(shown).collect::<Vec<_>>().join(", "),
    })
}

/// Erases the target of a row.
pub(super) fn erase(table: &Table, row: &ErasureRow, scope: Scope) -> Result<()> {
    let (mut source, at) = Batches::of_erasure(row, scope)?;
    let DateValue::Instant(at) = at else {
        return Err(Error::new(ErrorKind::Source, "an erasure needs a date"));
    };
    let mut rejects = Rejects::default();
    let targets = Ingest::new(true, scope.now, &mut rejects).targets(&mut source, at)?;
    table.erase(&targets, at).map(drop)
}

/// A sink that keeps every rejected row.
pub(super) fn rejects() -> impl RejectSink {
    Rejects::default()
}

/// Keeps every rejected row.
#[derive(Default)]
struct Rejects(Vec<Reject>);

impl RejectSink for Rejects {
    fn reject(&mut self, rejects: Vec<Reject>) -> Result<()> {
        self.0.extend(rejects);
        Ok(())
    }
}
