//! Every operation on the disk fails once, and the disk dies at every operation: the error
//! is clear, the store holds all of a load or nothing, and nothing is left lying around.

use crate::common::{
    Batches, Fault, FaultyDisk, Question, Row, ask, assert_nothing_leaks_for_long, create, load,
    name, questions, report, rows_of_all_kinds, runs,
};
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Pick, Window};
use idmatch_store::{Admin, Call, Error, ErrorKind, OpenTables, Result, Store};
use idmatch_testkit::MemoryStore;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is done, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Create,
    /// The load with this number.
    Load(usize),
    Ask,
    Refresh,
    Backup,
}

const STEPS: [Step; 6] =
    [Step::Create, Step::Load(0), Step::Load(1), Step::Ask, Step::Refresh, Step::Backup];

/// Loads this small go to disk and become several segments all the same.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 64,
    chunk_bytes: 400,
    run_bytes: 2_500,
    population_bytes: 500,
    memtable_bytes: 2_000,
};

/// The loads, what is asked, and what is right after none, one or both of them.
struct Scenario {
    loads: [Vec<Row>; 2],
    questions: Vec<Question>,
    right: Vec<Vec<Vec<Row>>>,
}

impl Scenario {
    fn new() -> Scenario {
        let rows = rows_of_all_kinds(90);
        // The loads share some rows. Much of the first goes to one key, which fills a buffer.
        let mut first = rows[..60].to_vec();
        first.extend((0..40).map(|n| (format!("{n:032x}"), "hot".to_owned(), 1_000 + n)));
        let loads = [first, rows[40..].to_vec()];
        let asked: Vec<Row> = loads.concat().into_iter().step_by(31).collect();
        // A match has as many operations as all the rest; one a direction will do.
        let is_asked = |question: &Question| match question {
            Question::Match(_, query) => query.pick == Pick::All,
            _ => true,
        };
        let questions = questions(&asked, &[Window::ALL]);
        let questions: Vec<Question> = questions.into_iter().filter(is_asked).collect();
        let store = MemoryStore::new();
        let table = create(&store, "t", Keep::Last).unwrap();
        let answers = || questions.iter().map(|question| ask(&table, question).unwrap()).collect();
        let mut right: Vec<Vec<Vec<Row>>> = vec![answers()];
        for rows in &loads {
            load(&table, &mut Batches::of_rows(rows, 30)).unwrap();
            right.push(answers());
        }
        Scenario { loads, questions, right }
    }

    fn take(&self, step: Step, store: &EngineStore, place: &Place) -> Result<()> {
        match step {
            Step::Create => create(store, "t", Keep::Last).map(drop),
            Step::Load(number) => {
                let table = store.table(&name("t"))?;
                load(&table, &mut Batches::of_rows(&self.loads[number], 30))
            }
            Step::Ask => {
                let table = store.table(&name("t"))?;
                for (question, right) in self.questions.iter().zip(&self.right[2]) {
                    assert_eq!(ask(&table, question)?, *right, "{question:?}");
                }
                assert_eq!(table.verify()?, []);
                Ok(())
            }
            Step::Refresh => store.refresh(&Call::default()),
            Step::Backup => store.backup(&place.backup, &Call::default()),
        }
    }

    /// How many loads a store has, all of each. Anything else is a failure.
    fn loads_in(&self, root: &Path) -> usize {
        let store = EngineStore::open(root).unwrap();
        let Ok(table) = store.table(&name("t")) else { return 0 };
        assert_eq!(table.verify().unwrap(), []);
        let found: Vec<Vec<Row>> =
            self.questions.iter().map(|question| ask(&table, question).unwrap()).collect();
        self.right.iter().position(|right| *right == found).expect("a part of a load is there")
    }
}

struct Place {
    _dir: tempfile::TempDir,
    store: PathBuf,
    backup: PathBuf,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        Place { store: dir.path().join("store"), backup: dir.path().join("backup"), _dir: dir }
    }
}

/// What came of a run.
enum Run {
    /// Every step went well, and the fault came or did not.
    Whole { was_hit: bool },
    /// A step failed; the store is open unless opening was what failed.
    Failed { step: usize, store: Option<EngineStore>, error: Error },
}

fn run(scenario: &Scenario, place: &Place, failing: Range<u64>, fault: Fault) -> Run {
    let disk = Arc::new(FaultyDisk::new(failing, fault));
    let store = match EngineStore::open_with(disk.clone(), &place.store, LIMITS) {
        Ok(store) => store,
        Err(error) => return Run::Failed { step: 0, store: None, error },
    };
    for (step, what) in STEPS.iter().enumerate() {
        if let Err(error) = scenario.take(*what, &store, place) {
            return Run::Failed { step, store: Some(store), error };
        }
    }
    Run::Whole { was_hit: disk.was_hit() }
}

/// How many loads must be there when a step has failed: those before it, or one more if
/// the failed load got as far as being published.
fn allowed(failed: usize) -> Range<usize> {
    let before = STEPS[..failed].iter().filter(|step| matches!(step, Step::Load(_))).count();
    before..before + 1 + usize::from(matches!(STEPS[failed], Step::Load(_)))
}

/// Runs the scenario with `length` failing operations at every place, until none is met.
fn fail_everywhere(fault: Fault, length: u64) {
    let scenario = Scenario::new();
    let mut failures = 0;
    for at in 0u64.. {
        let place = Place::new();
        let failing = at..at.saturating_add(length);
        match run(&scenario, &place, failing, fault) {
            Run::Whole { was_hit } => {
                assert_eq!(scenario.loads_in(&place.store), 2, "operation {at}");
                assert_eq!(scenario.loads_in(&place.backup), 2, "operation {at}");
                if !was_hit {
                    assert!(at > 60, "only {at} operations were counted");
                    break;
                }
            }
            Run::Failed { step, store, error } => {
                failures += 1;
                let words = format!("operation {at}, {:?}: {}", STEPS[step], error.chain());
                assert_eq!(error.kind(), ErrorKind::Io, "{words}");
                let folder = place.store.parent().unwrap().to_str().unwrap();
                assert!(words.contains(folder), "no file is named: {words}");
                assert!(words.contains("injected fault"), "the cause is not told: {words}");
                let there = scenario.loads_in(&place.store);
                assert!(allowed(step).contains(&there), "{there} loads: {words}");
                assert_nothing_leaks_for_long(&place.store);
                assert!(!is_half_a_store(&place.backup), "half a backup opens: {words}");
                if let Some(store) = store.filter(|_| length == 1) {
                    goes_on(&scenario, &place, &store, step, &words);
                }
            }
        }
    }
    let length = if length == u64::MAX { "all from there".to_owned() } else { length.to_string() };
    report(&format!("faults: {fault:?}, {length}, at each operation: {failures} runs failed"));
    let expected = !matches!(fault, Fault::ShortWrite);
    assert_eq!(failures > 0, expected, "{failures} runs failed");
}

/// A backup is complete or none, whatever became of it.
fn is_half_a_store(backup: &Path) -> bool {
    backup.join("MANIFEST").exists() && EngineStore::open(backup).is_err()
}

/// The handle that met the fault can repeat the failed step and do the rest.
fn goes_on(scenario: &Scenario, place: &Place, store: &EngineStore, failed: usize, words: &str) {
    for step in &STEPS[failed..] {
        if let Err(error) = scenario.take(*step, store, place) {
            panic!("{step:?} cannot be done after {words}: {}", error.chain());
        }
    }
    assert_eq!(scenario.loads_in(&place.store), 2, "{words}");
    assert_nothing_leaks_for_long(&place.store);
}

#[test]
fn the_disk_is_full_once() {
    fail_everywhere(Fault::Error(io::ErrorKind::StorageFull), 1);
}

#[test]
fn an_operation_is_refused_once() {
    fail_everywhere(Fault::Error(io::ErrorKind::Other), 1);
}

#[test]
fn some_operations_in_a_row_fail() {
    for length in 2..2 + runs(1) {
        fail_everywhere(Fault::Error(io::ErrorKind::Other), length);
    }
}

#[test]
fn the_disk_dies() {
    fail_everywhere(Fault::Error(io::ErrorKind::Other), u64::MAX);
}

#[test]
fn a_write_is_torn_and_the_disk_stays_full() {
    fail_everywhere(Fault::TornWrite, u64::MAX);
}

#[test]
fn short_writes_are_continued() {
    fail_everywhere(Fault::ShortWrite, 1);
}
