//! The backend answers as the conformance cases say.

use crate::common::{Beside, open_with};
use idmatch_store::{Result, Store};
use idmatch_testkit::conformance;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Files with cases of a million rows: minutes on a small machine, played by `make test-servers`.
const MILLIONS: [&str; 2] = ["hot-keys.json", "many-keys.json"];

/// The keyspaces of the stores: each table costs a server memory, so that only the latest is there.
struct Keyspaces {
    beside: Beside,
    latest: Mutex<Option<usize>>,
}

impl Keyspaces {
    /// That of the store with this number, emptied when it is first asked for.
    fn name(&self, number: usize) -> String {
        let name = |number| format!("conformance_{number}");
        let mut latest = self.latest.lock().unwrap();
        if *latest != Some(number) {
            for number in latest.replace(number).into_iter().chain([number]) {
                self.beside.run(&format!("DROP KEYSPACE IF EXISTS {}", name(number)));
            }
        }
        name(number)
    }
}

#[test]
fn the_backend_conforms() {
    let plays_all = std::env::var_os("IDMATCH_TEST_ALL").is_some();
    conforms("", plays_all);
    if plays_all {
        // Most keys are kept apart then, as those with very many rows are, and each batch of a population
        // is matched by itself.
        conforms("&hot_key_rows=1&match_memory=1", false);
    }
}

fn conforms(options: &'static str, with_millions: bool) {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/cases");
    let keyspaces = Keyspaces { beside: Beside::connect(), latest: Mutex::default() };
    let open = |number| -> Result<Arc<dyn Store>> {
        Ok(Arc::new(open_with(&keyspaces.name(number), options)))
    };
    let wants = |file: &str| with_millions || !MILLIONS.contains(&file);
    match conformance::run_some(&cases, &open, &wants) {
        Ok(tally) => println!("{tally}"),
        Err(failures) => panic!("{failures}"),
    }
}
