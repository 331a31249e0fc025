//! Steps of a case that come in an order: changes of tables between loads and questions.

use super::ask::ask;
use super::chain;
use super::compare::Difference;
use super::format::{Load, Question, Step};
use super::input::{Batches, Batching};
use super::load::{Loading, compare_failure, erase, load, rejects};
use super::value::Scope;
use idmatch_model::{Keep, Period, TableName, TableOptions};
use idmatch_store::{
    Call, ErrorKind, Ingest, NewWrite, OpenTables, Result, Store, Table, WriteKind, WriteSession,
};
use std::sync::Arc;

/// Expected rows of a table of a case.
const SMALL_ROWS: u64 = 64_000;

/// Where the steps of a case run.
pub(super) struct CaseContext<'s> {
    pub(super) store: &'s Arc<dyn Store>,
    /// The names of the case's tables begin with it.
    pub(super) prefix: &'s str,
    /// The `keep` of tables whose step names none.
    pub(super) keep: Keep,
    pub(super) scope: Scope,
    pub(super) batching: Batching,
    /// How often a change of unknown outcome is repeated.
    pub(super) repeats: usize,
}

impl CaseContext<'_> {
    /// Does a step; returns what differs, and how many questions it has.
    ///
    /// # Errors
    /// An error that the step does not expect.
    pub(super) fn run(&self, step: &Step) -> Result<(Vec<Difference>, usize)> {
        let call = Call::default();
        let (outcome, error) = match step {
            Step::Create { table, keep, retention, error } => {
                let keep = keep.unwrap_or(self.keep);
                let options = TableOptions { keep, retention: retention.clone() };
                let made =
                    self.store.create_table(&self.name(table)?, &options, Some(SMALL_ROWS), &call);
                (made.map(drop), error)
            }
            Step::Load { table, rows } => return self.load(table, rows, false),
            Step::Upsert { table, rows } => return self.load(table, rows, true),
            Step::Erase { table, rows } => {
                let table = self.table(table)?;
                let erased = rows.iter().try_for_each(|row| erase(&table, row, self.scope));
                (erased, &None)
            }
            Step::Replace { table, rows, meanwhile } => {
                return self.replace(table, rows, meanwhile);
            }
            Step::Rename { table, to, error } => {
                (self.store.rename_table(&self.name(table)?, &self.name(to)?, &call), error)
            }
            Step::Swap { table, with, error } => {
                (self.store.swap_tables(&self.name(table)?, &self.name(with)?, &call), error)
            }
            Step::Drop { table, error } => {
                (self.store.drop_table(&self.name(table)?, &call), error)
            }
            Step::Alter { table, retention, error } => {
                (self.set_retention(table, retention.as_ref()), error)
            }
            Step::Ask { table, questions } => return self.ask(table, questions),
            Step::Chain(question) => {
                let snapshot = self.store.snapshot(&call)?;
                let name = |table: &str| self.name(table);
                let at = (self.scope, self.batching);
                return Ok((chain::run(&*snapshot, &name, question, at)?, 1));
            }
            Step::Missing { table } => {
                let missing = Some("table-not-found".to_owned());
                let found = self.store.table(&self.name(table)?).map(drop);
                return Ok((compare(found, missing.as_ref())?.into_iter().collect(), 1));
            }
        };
        Ok((compare(outcome, error.as_ref())?.into_iter().collect(), 0))
    }

    fn name(&self, table: &str) -> Result<TableName> {
        Ok(format!("{}-{table}", self.prefix).parse()?)
    }

    fn table(&self, table: &str) -> Result<Table> {
        self.store.table(&self.name(table)?)
    }

    /// Sets a retention, and repeats it while its outcome is unknown, as its error says.
    fn set_retention(&self, table: &str, retention: Option<&Period>) -> Result<()> {
        let table = self.table(table)?;
        let mut outcome = table.set_retention(retention.cloned());
        for _ in 0..self.repeats {
            match outcome {
                Err(e) if e.kind() == ErrorKind::UnknownOutcome => {
                    outcome = table.set_retention(retention.cloned());
                }
                done => return done,
            }
        }
        outcome
    }

    fn load(&self, table: &str, rows: &Load, is_upsert: bool) -> Result<(Vec<Difference>, usize)> {
        let how = Loading { is_upsert, ..Loading::default() };
        Ok((load(&self.table(table)?, rows, how, self.scope, self.batching)?, 0))
    }

    fn ask(&self, table: &str, questions: &[Question]) -> Result<(Vec<Difference>, usize)> {
        let table = self.table(table)?;
        let mut differences = Vec::new();
        for question in questions {
            differences.extend(ask(&table, question, self.scope, self.batching)?);
        }
        Ok((differences, questions.len()))
    }

    fn replace(
        &self,
        table: &str,
        rows: &Load,
        meanwhile: &[Step],
    ) -> Result<(Vec<Difference>, usize)> {
        let (table, call) = (self.table(table)?, Call::default());
        let write = NewWrite { kind: WriteKind::Replace, ..NewWrite::load(table.snapshot()?.id()) };
        let session: Box<dyn WriteSession> = table.begin(write)?;
        let mut source = Batches::of_load(rows.rows(), false, self.scope, self.batching)?;
        let mut taken = rejects();
        let ingest = Ingest::new(true, self.scope.now, &mut taken);
        let part = session.stage(None, &ingest.judged(&mut source), &call)?;
        let (mut differences, mut questions) = (Vec::new(), 0);
        for step in meanwhile {
            let (found, asked) = self.run(step)?;
            differences.extend(found);
            questions += asked;
        }
        session.commit(&[part], &call)?;
        Ok((differences, questions))
    }
}

/// Compares an outcome with the error that a step expects, if it does.
fn compare(outcome: Result<()>, error: Option<&String>) -> Result<Option<Difference>> {
    match error {
        Some(code) => Ok(compare_failure(code, outcome)),
        None => outcome.map(|()| None),
    }
}
