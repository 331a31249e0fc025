//! The embedded engine answers as the conformance cases say, in the ways that `IDMATCH_TEST_WAYS` names.

use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_store::Store;
use idmatch_testkit::conformance::{self, Ways};
use std::path::Path;
use std::sync::Arc;

fn run(limits: MemoryLimits) {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/cases");
    let dir = tempfile::tempdir().unwrap();
    let open = |number: usize| -> idmatch_store::Result<Arc<dyn Store>> {
        let root = dir.path().join(number.to_string());
        Ok(Arc::new(EngineStore::open_with(Arc::new(OsDisk), &root, limits)?))
    };
    match conformance::run(&cases, Ways::of_environment(), &open) {
        Ok(tally) => {
            println!("{tally}");
            assert_eq!(tally.unsupported, 0);
        }
        Err(failures) => panic!("{failures}"),
    }
}

#[test]
fn the_engine_conforms() {
    run(MemoryLimits::default());
}
