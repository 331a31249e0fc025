//! The tables of offsets in the pages of formats.

use std::path::Path;

/// A table of offsets: field, offset, size. The parts of variable size have no offset or
/// no fixed size and are left to the reader below.
pub(crate) struct Layout(Vec<(String, usize, usize)>);

impl Layout {
    /// The table after the comment with this name.
    pub(crate) fn named(name: &str) -> Layout {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/format");
        let pages = ["segment.md", "journal.md", "erasures.md"]
            .map(|page| std::fs::read_to_string(folder.join(page)).unwrap());
        let comment = format!("<!-- offsets:{name} -->");
        let (_, after) = pages.iter().find_map(|page| page.split_once(&comment)).unwrap();
        let rows = after.lines().skip(1).take_while(|line| line.starts_with('|')).skip(2);
        let mut fields = Vec::new();
        for row in rows {
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
