//! What the fuzz targets do, without a fuzzer: arbitrary bytes, and good ones with a few
//! changed, go into everything that takes bytes from a disk. Each function asserts for
//! itself that what it accepts is in order; none may panic.

use crate::common::{
    Batches, create, erase, files, load, manifest, rows_of_all_kinds, upsert, write_manifest,
};
use idmatch_engine::{EngineStore, fuzzing};
use idmatch_model::Keep;
use proptest::prelude::*;
use std::path::Path;
use std::sync::LazyLock;

type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 13] = [
    ("manifest", fuzzing::manifest),
    ("table", fuzzing::table),
    ("history", fuzzing::history),
    ("session", fuzzing::session),
    ("part", fuzzing::part),
    ("lock_note", fuzzing::lock_note),
    ("segment", fuzzing::segment),
    ("id_page", fuzzing::id_page),
    ("date_page", fuzzing::date_page),
    ("block_header", fuzzing::block_header),
    ("records", fuzzing::records),
    ("journal", fuzzing::journal),
    ("erasures", fuzzing::erasures),
];

/// The files of a small store: a manifest, segments, erasures and a journal.
static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    create(&store, "small", Keep::Last).unwrap();
    drop(store);
    // The targets read segments with this seed.
    let mut json = manifest(dir.path()).unwrap();
    json["seed"] = "0000000000000000".into();
    write_manifest(dir.path(), &json);
    let store = EngineStore::open(dir.path()).unwrap();
    for (table, keep, count) in [("small", Keep::Last, 5), ("large", Keep::All, 400)] {
        let table = create(&store, table, keep).unwrap();
        load(&table, &mut Batches::of_rows(&rows_of_all_kinds(count), 100)).unwrap();
        upsert(&table, &mut Batches::of_rows(&rows_of_all_kinds(9), 100)).unwrap();
        let targets = ["a", "b", "c"].map(|id| idmatch_model::Target::Id(id.to_owned()));
        erase(&table, &targets, 5).unwrap();
    }
    files(dir.path()).iter().map(|file| std::fs::read(file).unwrap()).collect()
});

/// A good file with some bytes changed: more often at the start, where headers are.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let place = prop_oneof![0usize..160, 0usize..1 << 16];
    let value = prop_oneof![any::<u8>(), Just(0u8), Just(0xff), Just(1)];
    let changes = prop::collection::vec((place, value), 0..4);
    (0..FILES.len(), changes, prop::option::of(0usize..1 << 16)).prop_map(|(file, changes, cut)| {
        let mut bytes = FILES[file].clone();
        for (place, value) in changes {
            let len = bytes.len();
            bytes[place % len] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut);
        }
        bytes
    })
}

/// Any bytes, and ones with the structure that pages and block headers have: small numbers.
fn arbitrary() -> impl Strategy<Value = Vec<u8>> {
    let small = prop_oneof![3 => Just(0u8), 2 => 0u8..5, 1 => any::<u8>()];
    prop_oneof![prop::collection::vec(any::<u8>(), 0..300), prop::collection::vec(small, 0..300),]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn bytes_that_were_changed(bytes in mutated()) {
        TARGETS.iter().for_each(|(_, target)| target(&bytes));
        // The manifest's checksum covers what follows the first line.
        if let Some(line_end) = bytes.iter().position(|byte| *byte == b'\n') {
            fuzzing::manifest(&bytes[line_end + 1..]);
            fuzzing::table(&bytes[line_end + 1..]);
        }
    }

    #[test]
    fn bytes_of_any_kind(bytes in arbitrary()) {
        TARGETS.iter().for_each(|(_, target)| target(&bytes));
    }
}

/// Inputs that a fuzzer once found, one folder a target.
#[test]
fn what_was_found_stays_fixed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions");
    let mut played = 0;
    for (name, target) in TARGETS {
        let Ok(entries) = std::fs::read_dir(folder.join(name)) else { continue };
        for entry in entries {
            target(&std::fs::read(entry.unwrap().path()).unwrap());
            played += 1;
        }
    }
    assert!(played > 0, "{} has no inputs", folder.display());
}

/// Good files pass: what the tests above change is no garbage to begin with.
#[test]
fn good_files_are_good() {
    let of = |magic: &str| -> Vec<&Vec<u8>> {
        FILES.iter().filter(|file| file.starts_with(magic.as_bytes())).collect()
    };
    let segments = of("IDMSEG");
    let others =
        ["idmatch-manifest 2 ", "idmatch-table 2 ", "idmatch-history 2 ", "IDMJRN", "IDMERA"]
            .map(|magic| of(magic).len());
    assert_eq!((segments.len(), others, FILES.len()), (4, [1, 2, 1, 1, 2], 11));
    for segment in segments {
        assert!(fuzzing::is_good_segment(segment));
        let mut changed = segment.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(!fuzzing::is_good_segment(&changed));
    }
}
