//! The files of a store, looked at from outside.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The manifest, every segment and every journal file of a store.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let mut files = vec![root.join("MANIFEST")];
    for folder in ["segments", "journal"] {
        let folder = root.join(folder);
        files.extend(listed(&folder).iter().map(|name| folder.join(name)));
    }
    files
}

/// Copies a store file by file, to harm or open it elsewhere.
pub(crate) fn copy_store(from: &Path, to: &Path) {
    for folder in ["segments", "journal"] {
        fs::create_dir_all(to.join(folder)).unwrap();
    }
    for file in files(from) {
        fs::copy(&file, to.join(file.strip_prefix(from).unwrap())).unwrap();
    }
}

/// The folders of a store hold what its manifest names and nothing else.
pub(crate) fn assert_nothing_leaked(root: &Path) {
    let segments = listed(&root.join("segments"));
    // Before the first table there is no manifest, and nothing may be there either.
    let manifest = fs::read_to_string(root.join("MANIFEST")).unwrap_or_default();
    let named: BTreeSet<String> = named_files(&manifest);
    assert_eq!(segments, named, "segments/ of {}", root.display());
    assert_eq!(listed(&root.join("scratch")), BTreeSet::new(), "scratch/ of {}", root.display());
    let first = format!("{:010}.log", first_journal(&manifest));
    let worthless = listed(&root.join("journal")).into_iter().filter(|name| *name < first);
    assert_eq!(worthless.count(), 0, "journal/ of {}", root.display());
}

fn named_files(manifest: &str) -> BTreeSet<String> {
    let Some((_, json)) = manifest.split_once('\n') else { return BTreeSet::new() };
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let tables = json["tables"].as_object().unwrap().values();
    tables
        .flat_map(|table| {
            let erasures = table["erasures"].as_array().into_iter().flatten();
            table["segments"].as_array().unwrap().iter().chain(erasures)
        })
        .map(|segment| segment["file"].as_str().unwrap().to_owned())
        .collect()
}

fn first_journal(manifest: &str) -> u64 {
    let Some((_, json)) = manifest.split_once('\n') else { return 0 };
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    json["journal"]["first"].as_u64().unwrap_or(0)
}

fn listed(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeSet::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
