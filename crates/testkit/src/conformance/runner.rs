//! Runs cases: makes a table, loads, asks.

use super::ask::ask;
use super::compare::{Difference, Mismatch, shown_error};
use super::format::{Case, CaseFile};
use super::load::{Loading, erase, load};
use super::outcome::Tally;
use super::steps::CaseContext;
use super::tables;
use super::value::Scope;
use super::ways::{Way, Ways};
use crate::MemoryStore;
use idmatch_model::{Keep, TableName, TableOptions};
use idmatch_store::{
    Call, CopyOptions, Error, ErrorKind, Finding, OpenTables, Result, Store, Table, copy_table,
};
use std::sync::Arc;

/// The most tables in one store: each costs a server memory.
const TABLES_IN_STORE: usize = 40;

/// Opens the store with this number, in which some of the cases run. The same number always means the same
/// store. A store has no tables before its first opening. The runner drops one opening before it asks for the
/// next, and needs no earlier store once it asks for another. All numbers may mean one store; but each case
/// makes a table, and a store with hundreds of tables may be slow to open.
pub type StoreFactory<'a> = &'a dyn Fn(usize) -> Result<Arc<dyn Store>>;

/// Runs cases and collects the mismatches.
pub(super) struct Runner<'a> {
    open: StoreFactory<'a>,
    ways: Ways,
    /// How often a change of unknown outcome is repeated.
    repeats: usize,
    tally: Tally,
    /// The file and the case that runs.
    place: (String, String),
    tables: usize,
    mismatches: Vec<Mismatch>,
}

impl<'a> Runner<'a> {
    pub(super) fn new(open: StoreFactory<'a>, ways: Ways, repeats: usize) -> Runner<'a> {
        let place = (String::new(), String::new());
        Runner {
            open,
            ways,
            repeats,
            tally: Tally::default(),
            place,
            tables: 0,
            mismatches: Vec::new(),
        }
    }

    /// How much has run, and everything that went wrong.
    pub(super) fn finish(self) -> (Tally, Vec<Mismatch>) {
        (self.tally, self.mismatches)
    }

    /// Runs all cases of a file.
    pub(super) fn run_file(&mut self, name: &str, file: Result<CaseFile>) {
        self.tally.files += 1;
        name.clone_into(&mut self.place.0);
        self.place.1.clear();
        let Some(file) = self.take("reading it", file) else { return };
        for case in &file.cases {
            self.tally.cases += 1;
            case.name.clone_into(&mut self.place.1);
            let ways = self.ways;
            let [as_written, otherwise] = ways.keeps(case);
            if !case.steps.is_empty() {
                for (keeps, reopens) in [(as_written, false), (otherwise, true)] {
                    for keep in keeps {
                        let outcome = self.run_steps(case, *keep, reopens);
                        self.take(&format!("keep {keep:?}, reopened: {reopens}"), outcome);
                    }
                }
                continue;
            }
            let others = ways.others(case).iter().map(|way| (otherwise, *way));
            for (keeps, way) in [(as_written, Way::AsWritten)].into_iter().chain(others) {
                for keep in keeps {
                    let outcome = self.run_case(case, *keep, way);
                    self.take(&format!("keep {keep:?}, {way:?}"), outcome);
                }
            }
        }
    }

    /// Checks the rules for making and finding tables, which no case can express.
    pub(super) fn run_table_rules(&mut self) {
        self.place = ("(no file)".to_owned(), "the rules of tables".to_owned());
        let outcome = self.open().and_then(|store| tables::check(&store));
        self.take_all("", outcome);
    }

    /// The store for the latest table.
    fn open(&self) -> Result<Arc<dyn Store>> {
        (self.open)(self.tables / TABLES_IN_STORE)
    }

    fn run_case(&mut self, case: &Case, keep: Keep, way: Way) -> Result<()> {
        let scope = Scope::new(idmatch_store::now());
        self.tables += 1;
        let name: TableName = format!("case-{}", self.tables).parse()?;
        let options = TableOptions { keep, retention: case.retention.clone() };
        let mut store = self.open()?;
        let mut table = store.table_with(&name, &options)?;
        let erased = table.clone();
        let loads = way.loads(&case.loads);
        let erases_after = way.erases_after(loads.len());
        let erase_at = |done: usize| match erases_after.contains(&done) {
            true => case.erasures.iter().try_for_each(|row| erase(&erased, row, scope)),
            false => Ok(()),
        };
        erase_at(0)?;
        for (at, rows) in loads.into_iter().enumerate() {
            let how = Loading {
                is_reversed: way == Way::Reversed,
                is_upsert: way.upserts(at),
                is_shared: way == Way::Repeated,
            };
            let differences = load(&table, rows, how, scope, way.batching());
            self.take_all(&format!("keep {keep:?}, {way:?}, load {}", at + 1), differences);
            erase_at(at + 1)?;
        }
        if !matches!(way, Way::AsWritten | Way::Mixed) {
            drop((table, erased));
            drop(store);
            store = self.open()?;
            table = store.table(&name)?;
        }
        let reference: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let is_copied = way == Way::AsWritten && !case.is_large();
        let copy = is_copied.then(|| copied(&table, &reference)).transpose()?;
        for (at, question) in case.questions.iter().enumerate() {
            self.tally.questions += 1;
            let differences = ask(&table, question, scope, way.batching());
            let step = format!("keep {keep:?}, {way:?}, question {}", at + 1);
            self.take_all(&step, differences);
            if let Some(copy) = &copy {
                let differences = ask(copy, question, scope, way.batching());
                self.take_all(&format!("{step} to the copy"), differences);
            }
        }
        self.take_all(&format!("keep {keep:?}, {way:?}, verify"), verify(&table));
        Ok(())
    }

    /// Does the steps of a case; with `reopens` the store is opened anew before each.
    fn run_steps(&mut self, case: &Case, keep: Keep, reopens: bool) -> Result<()> {
        if !(case.loads.is_empty() && case.erasures.is_empty() && case.questions.is_empty()) {
            let text = "a case has either steps, or loads, erasures and questions";
            return Err(Error::new(ErrorKind::Source, text));
        }
        let (scope, batching) = (Scope::new(idmatch_store::now()), Way::AsWritten.batching());
        self.tables += 1;
        let prefix = format!("case-{}", self.tables);
        let mut store = self.open()?;
        for (at, step) in case.steps.iter().enumerate() {
            if reopens {
                drop(store);
                store = self.open()?;
            }
            let repeats = self.repeats;
            let done =
                CaseContext { store: &store, prefix: &prefix, keep, scope, batching, repeats }
                    .run(step);
            if done.as_ref().is_err_and(|e| e.kind() == ErrorKind::Unsupported) {
                self.tally.unsupported += 1;
                return Ok(());
            }
            let place = format!("keep {keep:?}, reopened: {reopens}, step {}", at + 1);
            let Some((differences, questions)) = self.take(&place, done) else { return Ok(()) };
            self.tally.questions += questions;
            self.take_all(&place, Ok(differences));
        }
        for name in store.tables()?.iter().filter(|name| name.as_str().starts_with(&prefix)) {
            self.take_all(&format!("verify {name}"), verify(&store.table(name)?));
        }
        Ok(())
    }

    fn take_all(&mut self, step: &str, outcome: Result<Vec<Difference>>) {
        for difference in self.take(step, outcome).into_iter().flatten() {
            self.note(step, difference);
        }
    }

    /// The outcome of a step, or a mismatch if it is an error.
    fn take<T>(&mut self, step: &str, outcome: Result<T>) -> Option<T> {
        outcome
            .map_err(|error| {
                let got = shown_error(&error);
                self.note(step, Difference { expected: "no error".to_owned(), got });
            })
            .ok()
    }

    fn note(&mut self, step: &str, difference: Difference) {
        let (file, case) = self.place.clone();
        self.mismatches.push(Mismatch { file, case, step: step.to_owned(), difference });
    }
}

/// A copy of a table in the reference, which must answer the same.
fn copied(table: &Table, reference: &Arc<dyn Store>) -> Result<Table> {
    copy_table(table, reference, table.name(), CopyOptions::default(), &Call::default())?;
    reference.table(table.name())
}

/// A table whose cases have run must have nothing wrong with it.
fn verify(table: &Table) -> Result<Vec<Difference>> {
    let difference = |Finding { place, problem }| Difference {
        expected: "no findings".to_owned(),
        got: format!("{place}: {problem}"),
    };
    Ok(table.verify()?.into_iter().map(difference).collect())
}
