//! Panics become errors that say where they were, and nothing of what they say.

// The binding itself links with Python only; this part of it knows none.
#[path = "../src/panics.rs"]
mod panics;

use idmatch_store::{ErrorKind, Result};
use panics::{caught, note_panics};

fn told(work: impl FnOnce() -> Result<()>) -> String {
    let error = caught(work).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    error.to_string()
}

/// One test: the place of the last panic is that of the whole process.
#[test]
fn a_panic_is_an_error_with_its_place() {
    note_panics();
    assert_eq!(caught(|| 7).unwrap(), 7);
    let here = line!() + 1;
    let text = told(|| panic!("an identifier"));
    assert!(text.contains(&format!("tests/panics.rs:{here}")), "{text}");
    assert!(!text.contains("an identifier"), "{text}");
    // As the engine does: a thread of the work panics, and the one that joins it goes on with that.
    let here = line!() + 2;
    let text = told(|| {
        let joined = std::thread::spawn(|| panic!("an identifier")).join();
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    assert!(text.contains(&format!("tests/panics.rs:{here}")), "{text}");
    assert!(!text.contains("an identifier"), "{text}");
}
