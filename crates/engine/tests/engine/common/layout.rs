//! The tables of offsets and of keys in the pages of formats.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The lines of the table after a comment, without its heading.
fn table(comment: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/format");
    let pages = ["segment.md", "journal.md", "erasures.md", "manifest.md", "staging.md"]
        .map(|page| std::fs::read_to_string(folder.join(page)).unwrap());
    let (_, after) = pages.iter().find_map(|page| page.split_once(comment)).unwrap();
    let rows = after.lines().skip(1).take_while(|line| line.starts_with('|')).skip(2);
    rows.map(str::to_owned).collect()
}

/// A table of offsets: field, offset, size. The parts of variable size have no offset or
/// no fixed size and are left to the reader below.
pub(crate) struct Layout(Vec<(String, usize, usize)>);

impl Layout {
    /// The table after the comment with this name.
    pub(crate) fn named(name: &str) -> Layout {
        let mut fields = Vec::new();
        for row in table(&format!("<!-- offsets:{name} -->")) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [offset, size, field] = cells[..] else { panic!("{row}") };
            if let (Ok(offset), Ok(size)) = (offset.parse(), size.parse()) {
                fields.push((field.to_owned(), offset, size));
            }
        }
        // Fields follow each other without a gap, or the table is wrong in itself.
        let mut end = 0;
        for (field, offset, size) in &fields {
            assert_eq!(*offset, end, "{name}: {field}");
            end += size;
        }
        Layout(fields)
    }

    /// Bytes of all fields.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|(_, _, size)| size).sum()
    }

    /// The number in the one field whose description starts like this.
    pub(crate) fn read(&self, field: &str, bytes: &[u8]) -> u64 {
        number(self.bytes(field, bytes))
    }

    pub(crate) fn bytes<'b>(&self, field: &str, bytes: &'b [u8]) -> &'b [u8] {
        let mut found = self.0.iter().filter(|(name, _, _)| name.starts_with(field));
        let (_, offset, size) = found.next().unwrap_or_else(|| panic!("no field {field}"));
        assert!(found.next().is_none(), "several fields {field}");
        &bytes[*offset..offset + size]
    }
}

pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A table of the keys of JSON, as paths such as `segments.*.file`: `*` is each entry of an array, or of an
/// object with any keys.
pub(crate) struct KeyTable {
    name: String,
    paths: BTreeSet<String>,
    /// The arrays and objects that were compared.
    seen: BTreeSet<String>,
}

impl KeyTable {
    /// The table after the comment with this name.
    pub(crate) fn named(name: &str) -> KeyTable {
        let mut paths = BTreeSet::new();
        for row in table(&format!("<!-- keys:{name} -->")) {
            let keys = row.trim_matches('|').split('|').next().unwrap();
            for key in keys.split('`').skip(1).step_by(2) {
                assert!(paths.insert(key.to_owned()), "{name}: {key} is there twice");
            }
        }
        KeyTable { name: name.to_owned(), paths, seen: BTreeSet::new() }
    }

    /// The keys at a path.
    fn at(&self, path: &str) -> BTreeSet<String> {
        let below = |key: &String| match path {
            "" => Some(key.clone()),
            path => Some(key.strip_prefix(path)?.strip_prefix('.')?.to_owned()),
        };
        let keys = self.paths.iter().filter_map(below);
        keys.map(|key| key.split('.').next().unwrap().to_owned()).collect()
    }

    /// Asserts that all objects of the JSON have exactly the keys of the table.
    pub(crate) fn compare(&mut self, json: &Value) {
        self.compare_at("", json);
    }

    fn compare_at(&mut self, path: &str, json: &Value) {
        let below = |key: &str| match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        let any = below("*");
        let has_any_keys = self.at(path) == BTreeSet::from(["*".to_owned()]);
        let entries: Vec<(String, &Value)> = match json {
            Value::Array(entries) => entries.iter().map(|entry| (any.clone(), entry)).collect(),
            Value::Object(entries) if has_any_keys => {
                entries.values().map(|entry| (any.clone(), entry)).collect()
            }
            Value::Object(entries) => {
                let keys: BTreeSet<String> = entries.keys().cloned().collect();
                assert_eq!(keys, self.at(path), "{}: the keys of {path:?}", self.name);
                entries.iter().map(|(key, entry)| (below(key), entry)).collect()
            }
            _ => return,
        };
        self.seen.insert(path.to_owned());
        entries.iter().for_each(|(path, entry)| self.compare_at(path, entry));
    }

    /// Asserts that every object of the table was compared at least once.
    pub(crate) fn assert_all_compared(&self) {
        for path in &self.paths {
            for (end, _) in path.match_indices('.') {
                assert!(self.seen.contains(&path[..end]), "{}: no {}", self.name, &path[..end]);
            }
        }
    }
}
