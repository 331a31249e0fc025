//! Changes of the catalog by one thread, one after the other, and the tables that they leave.

use crate::common::{Batches, Row, create, load, name, scanned, upsert};
use idmatch_engine::EngineStore;
use idmatch_model::{Keep, Window};
use idmatch_store::{Call, OpenTables, ScanRanges, Store};
use std::collections::BTreeMap;

/// The rows of each table that only this thread changes.
pub(super) type Catalog = BTreeMap<String, Vec<Row>>;

/// One change. Four of them make a table, fill it, rename it, and drop the table of the four before.
#[derive(Clone, Copy)]
pub(super) struct Change {
    process: u32,
    number: usize,
}

impl Change {
    /// The change with this number, from 0, of a process.
    pub(super) fn new(process: u32, number: usize) -> Change {
        Change { process, number }
    }

    pub(super) fn apply(self, store: &EngineStore) {
        let (made, kept, call) = (self.table("made"), self.table("kept"), Call::default());
        match self.number % 4 {
            0 => drop(create(store, &made, Keep::Last).unwrap()),
            1 => {
                let table = store.table(&name(&made)).unwrap();
                let fill = if self.number % 8 == 1 { upsert } else { load };
                fill(&table, &mut Batches::of_rows(&self.rows(), 2)).unwrap();
            }
            2 => store.rename_table(&name(&made), &name(&kept), &call).unwrap(),
            _ => {
                if let Some(before) = self.before() {
                    store.drop_table(&name(&before.table("kept")), &call).unwrap();
                }
            }
        }
    }

    /// The same in a catalog of rows.
    fn note(self, catalog: &mut Catalog) {
        let (made, kept) = (self.table("made"), self.table("kept"));
        match self.number % 4 {
            0 => drop(catalog.insert(made, Vec::new())),
            1 => drop(catalog.insert(made, self.rows())),
            2 => {
                let rows = catalog.remove(&made).unwrap();
                catalog.insert(kept, rows);
            }
            _ => {
                let before = self.before();
                before.map(|before| catalog.remove(&before.table("kept")).unwrap());
            }
        }
    }

    /// The same change four changes before.
    fn before(self) -> Option<Change> {
        let number = self.number.checked_sub(4)?;
        Some(Change { number, ..self })
    }

    fn table(self, kind: &str) -> String {
        format!("{kind}-{}-{}", self.process, self.number / 4)
    }

    fn rows(self) -> Vec<Row> {
        let of = self.table("row");
        // The same keys are in other tables, with other answers.
        (0..6).map(|row| (format!("hub {row}"), of.clone(), row)).collect()
    }
}

/// The catalog after so many changes of a process.
pub(super) fn after(before: &Catalog, process: u32, changes: usize) -> Catalog {
    let mut catalog = before.clone();
    (0..changes).for_each(|number| Change::new(process, number).note(&mut catalog));
    catalog
}

/// The tables that a store has beside these, with all their rows, alike in both directions.
pub(super) fn found(store: &EngineStore, others: &[&str], place: &str) -> Catalog {
    let mut catalog = Catalog::new();
    for table in store.tables().unwrap() {
        if !others.contains(&table.as_str()) {
            let opened = store.table(&table).unwrap();
            assert_eq!(opened.verify().unwrap(), [], "{place}: {table}");
            let rows = scanned(&*opened.snapshot().unwrap(), &ScanRanges::all(), Window::ALL);
            catalog.insert(table.as_str().to_owned(), rows);
        }
    }
    catalog
}
