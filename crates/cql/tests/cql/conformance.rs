//! The backend answers as the conformance cases say: one test for each case file that servers can play.
//!
//! `IDMATCH_TEST_WAYS` says in which ways the cases run: `all` (the default), or the name of one,
//! which runs beside the cases as written. `IDMATCH_TEST_OPTIONS` are further options of the address,
//! such as `&hot_key_rows=1&match_memory=1`.

use crate::common::{Beside, open_with};
use idmatch_store::locks::Mutex;
use idmatch_store::{Result, Store};
use idmatch_testkit::conformance::{self, Ways};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The cases that servers cannot play: they refuse a replace, before any question is asked. `sessions` shows how.
const UNSUPPORTED: &str = "replace.json";

/// How often a change of unknown outcome is repeated: servers may be slower than the timeout of a case.
const REPEATS: usize = 5;

/// One test for each other case file, and one that finds case files without a test.
macro_rules! case_files {
    ($($(#[$attribute:meta])* $test:ident: $file:literal,)*) => {
        $(#[test]
        $(#[$attribute])*
        fn $test() {
            conforms($file);
        })*

        #[test]
        fn every_case_file_has_a_test() {
            let files = conformance::case_files(&cases()).unwrap();
            let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap()).collect();
            let mut known = vec![$($file,)* UNSUPPORTED];
            known.sort_unstable();
            assert_eq!(names, known);
        }
    };
}

case_files! {
    bad_rows: "bad-rows.json",
    catalog: "catalog.json",
    chains: "chains.json",
    dates: "dates.json",
    erasure: "erasure.json",
    #[ignore = "hundreds of thousands of rows: run by `make test-long`"]
    hot_keys: "hot-keys.json",
    id_bytes: "id-bytes.json",
    id_kinds: "id-kinds.json",
    lookups: "lookups.json",
    #[ignore = "hundreds of thousands of rows: run by `make test-long`"]
    many_keys: "many-keys.json",
    merging: "merging.json",
    order: "order.json",
    population: "population.json",
    retention_changes: "retention-changes.json",
    retention: "retention.json",
    windows: "windows.json",
}

/// The keyspaces of one case file. Each table costs a server memory, so only the latest keyspace exists.
struct Keyspaces {
    prefix: String,
    server: Beside,
    latest: Mutex<Option<usize>>,
}

impl Keyspaces {
    fn new(prefix: &str) -> Keyspaces {
        let prefix = prefix.to_owned();
        Keyspaces { prefix, server: Beside::connect(), latest: Mutex::default() }
    }

    /// The keyspace of the store with this number. It is empty when it is first asked for.
    fn name(&self, number: usize) -> String {
        let name = |number| format!("{}_{number}", self.prefix);
        let mut latest = self.latest.lock();
        if *latest != Some(number) {
            for number in latest.replace(number).into_iter().chain([number]) {
                self.server.run(&format!("DROP KEYSPACE IF EXISTS {}", name(number)));
            }
        }
        name(number)
    }
}

impl Drop for Keyspaces {
    fn drop(&mut self) {
        // A panic here would hide why the test has failed.
        let latest = self.latest.get_mut();
        if let Some(number) = latest.take() {
            self.server.try_run(&format!("DROP KEYSPACE IF EXISTS {}_{number}", self.prefix));
        }
    }
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/cases")
}

fn conforms(file: &'static str) {
    let mut options = std::env::var("IDMATCH_TEST_OPTIONS").unwrap_or_default();
    if file == "retention-changes.json" {
        // A longer retention waits for as long as a write may take.
        options.push_str("&request_timeout=1s&timeout=2s");
    }
    conforms_with(file, &options);
}

fn conforms_with(file: &str, options: &str) {
    let prefix = format!("conformance_{}", file.trim_end_matches(".json").replace('-', "_"));
    let keyspaces = Keyspaces::new(&prefix);
    let open = |number| -> Result<Arc<dyn Store>> {
        Ok(Arc::new(open_with(&keyspaces.name(number), options)))
    };
    let ways = Ways::of_environment();
    match conformance::run_file(&cases().join(file), ways, REPEATS, &open) {
        Ok(tally) => println!("{file}: {tally}; {ways}"),
        Err(failures) => panic!("{failures}"),
    }
}

#[test]
fn table_rules() {
    let keyspaces = Keyspaces::new("conformance_table_rules");
    let open =
        |number| -> Result<Arc<dyn Store>> { Ok(Arc::new(open_with(&keyspaces.name(number), ""))) };
    if let Err(failures) = conformance::run_table_rules(&open) {
        panic!("{failures}");
    }
}
