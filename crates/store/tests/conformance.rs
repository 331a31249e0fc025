//! The in-memory reference answers as the conformance cases say, and the runner notices
//! when a store does not.

use idmatch_store::{MemoryStore, conformance};
use std::path::Path;
use std::sync::Arc;

#[test]
fn the_memory_store_conforms() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/cases");
    let store = Arc::new(MemoryStore::new());
    match conformance::run(&cases, &|| Ok(store.clone())) {
        Ok(tally) => println!("{tally}"),
        Err(failures) => panic!("{failures}"),
    }
}
