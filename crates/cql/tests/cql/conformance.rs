//! The backend answers as the conformance cases say.

use crate::common::{Beside, open_with};
use idmatch_cql::CqlStore;
use idmatch_model::{ErasureKey, TableName, TableOptions};
use idmatch_store::{Result, Store, Table, conformance};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The cases make hundreds of tables, each of which costs a server memory. So many share a keyspace,
/// which is dropped when the next one begins.
const TABLES_IN_KEYSPACE: usize = 40;

/// Files with cases of a million rows: minutes on a small machine, played by `make test-servers`.
const MILLIONS: [&str; 2] = ["hot-keys.json", "many-keys.json"];

/// Which keyspace the latest tables are in.
struct Keyspaces {
    beside: Beside,
    /// Its number, and the tables that it has.
    latest: Mutex<(usize, usize)>,
}

impl Keyspaces {
    fn name(number: usize) -> String {
        format!("conformance_{number}")
    }

    fn latest(&self) -> String {
        Keyspaces::name(self.latest.lock().unwrap().0)
    }

    /// Notes a new table; true where it is the first of another keyspace.
    fn next_table(&self) -> bool {
        let mut latest = self.latest.lock().unwrap();
        latest.1 += 1;
        let is_full = latest.1 > TABLES_IN_KEYSPACE;
        if is_full {
            self.remove(latest.0);
            *latest = (latest.0 + 1, 1);
            self.remove(latest.0);
        }
        is_full
    }

    fn remove(&self, number: usize) {
        self.beside.run(&format!("DROP KEYSPACE IF EXISTS {}", Keyspaces::name(number)));
    }
}

/// The store in the latest keyspace.
struct Latest {
    keyspaces: Arc<Keyspaces>,
    store: Mutex<CqlStore>,
    options: &'static str,
}

impl Latest {
    fn store(&self) -> CqlStore {
        self.store.lock().unwrap().clone()
    }
}

impl Store for Latest {
    fn create_table(&self, name: &TableName, options: &TableOptions) -> Result<Arc<dyn Table>> {
        if name.as_str().starts_with("case-") && self.keyspaces.next_table() {
            let store = open_with(&self.keyspaces.latest(), self.options);
            *self.store.lock().unwrap() = store;
        }
        self.store().create_table(name, options)
    }

    fn table(&self, name: &TableName) -> Result<Arc<dyn Table>> {
        self.store().table(name)
    }

    fn tables(&self) -> Result<Vec<TableName>> {
        self.store().tables()
    }

    fn refresh(&self) -> Result<()> {
        self.store().refresh()
    }

    fn backup(&self, destination: &Path) -> Result<()> {
        self.store().backup(destination)
    }

    fn adopt_erasure_key(&self, key: ErasureKey) -> Result<ErasureKey> {
        self.store().adopt_erasure_key(key)
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
    let keyspaces = Arc::new(Keyspaces { beside: Beside::connect(), latest: Mutex::default() });
    keyspaces.remove(0);
    let open = || -> Result<Arc<dyn Store>> {
        let store = Mutex::new(open_with(&keyspaces.latest(), options));
        Ok(Arc::new(Latest { keyspaces: Arc::clone(&keyspaces), store, options }))
    };
    let wants = |file: &str| with_millions || !MILLIONS.contains(&file);
    match conformance::run_some(&cases, &open, &wants) {
        Ok(tally) => println!("{tally}"),
        Err(failures) => panic!("{failures}"),
    }
}
