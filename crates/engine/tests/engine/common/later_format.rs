//! Files as a later version would write them, and files that begin as no file of a store does.

use super::{Layout, manifest, table_file, write_table};
use idmatch_store::{Error, ErrorKind};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// The format of all files of this version, by `spec/format/README.md`.
const OURS: u32 = 2;

/// The next format, and the last one that there can be.
pub(crate) const LATER_FORMATS: [u32; 2] = [3, u32::MAX];

/// The names of the layouts in `spec/format/`, by the magic of their files.
const LAYOUTS: [(&[u8], &str); 4] = [
    (b"IDMSEG\r\n", "header"),
    (b"IDMJRN\r\n", "file"),
    (b"IDMERA\r\n", "erasures"),
    (b"IDMPRT\r\n", "part"),
];

/// The same file with another format. Its own checksums fit.
pub(crate) fn with_format(file: &[u8], format: u32) -> Vec<u8> {
    if file.starts_with(b"idmatch-") {
        // The checksum in the first line is that of the rest.
        let (line, json) = file.split_at(file.iter().position(|byte| *byte == b'\n').unwrap());
        let line = str::from_utf8(line).unwrap();
        let [kind, ours, sum] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert_eq!(ours, OURS.to_string());
        return [format!("{kind} {format} {sum}").as_bytes(), json].concat();
    }
    let (_, layout) = LAYOUTS.iter().find(|(magic, _)| file.starts_with(magic)).unwrap();
    let layout = Layout::named(layout);
    assert_eq!(layout.read("format", file), u64::from(OURS));
    let (mut later, sum_at) = (file.to_vec(), layout.len() - 8);
    later[8..12].copy_from_slice(&format.to_le_bytes());
    let sum = xxh3_64(&later[..sum_at]);
    later[sum_at..sum_at + 8].copy_from_slice(&sum.to_le_bytes());
    later
}

/// The same file cut within its magic or its format, and with another magic before a later format.
pub(crate) fn without_magic(file: &[u8]) -> Vec<Vec<u8>> {
    let mut garbled = with_format(file, LATER_FORMATS[0]);
    garbled[3] ^= 0x20;
    vec![Vec::new(), file[..4].to_vec(), file[..10].to_vec(), garbled]
}

/// Writes a file of a store, and its checksum to the file that names it.
pub(crate) fn put_later(root: &Path, file: &Path, bytes: &[u8]) {
    fs::write(file, bytes).unwrap();
    let (list, key, sum) = match file.extension().and_then(|ending| ending.to_str()) {
        Some("era") => ("erasures", "sum", xxh3_64(bytes)),
        Some("seg") => {
            let header = Layout::named("header");
            ("segments", "header_sum", header.read("checksum of bytes 0 to 143", bytes))
        }
        _ => return,
    };
    let file_name = file.file_name().unwrap().to_str().unwrap();
    for named in manifest(root).unwrap()["tables"].as_object().unwrap().values() {
        let table = named["name"].as_str().unwrap();
        let (_, mut json) = table_file(root, table);
        let entries = json[list].as_array_mut().unwrap();
        if let Some(entry) = entries.iter_mut().find(|entry| entry["file"] == file_name) {
            entry[key] = Value::from(format!("{sum:016x}"));
            write_table(root, table, &json);
        }
    }
}

/// An error must name the file, its format and that of this version, and say what to do.
pub(crate) fn assert_later(error: &Error, file: &Path, format: u32, what: &str) {
    let words = error.chain();
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{what}: {words}");
    let formats = format!("format {format}, this version reads format {OURS}; ");
    let advice = "use the version of idmatch that wrote it, or a later one";
    for part in [file.to_str().unwrap(), &*formats, advice] {
        assert!(words.contains(part), "{what}: no {part:?} in {words:?}");
    }
}

/// Every file and folder below a folder; a folder has no bytes.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
            found.insert(path, None);
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, Some(bytes));
        }
    }
    found
}

/// Asserts that a store is as it was, and names the first file that is not.
pub(crate) fn assert_unchanged(
    root: &Path,
    before: &BTreeMap<PathBuf, Option<Vec<u8>>>,
    what: &str,
) {
    let after = tree(root);
    let names = |tree: &BTreeMap<PathBuf, _>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&after), names(before), "{what}: the files");
    let changed = after.iter().find(|(path, bytes)| before[*path] != **bytes);
    assert_eq!(changed.map(|(path, _)| path), None, "{what}: changed");
}
