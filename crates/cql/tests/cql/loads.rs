//! Loads that do not end, and are repeated.

use crate::common::{Batches, answers, fresh, load_from, open, upsert};
use idmatch_model::{Side, TableOptions};
use idmatch_store::{BatchSource, Error, ErrorKind, OpenTables, Result, SourceBatch, Table};

const KEYSPACE: &str = "loads";
const ROWS: usize = 130_000;
const ROWS_IN_BATCH: usize = 10_000;

fn rows() -> Vec<(String, String, i64)> {
    (0..ROWS).map(|n| (format!("id{n}"), format!("p{}", n / 2), 1_700_000_000_000)).collect()
}

/// Gives some batches and then fails.
struct Breaks {
    batches: Vec<Batches>,
    left: usize,
}

impl Breaks {
    fn after(left: usize) -> Breaks {
        let batches = rows().chunks(ROWS_IN_BATCH).map(Batches::of_rows).rev().collect();
        Breaks { batches, left }
    }
}

impl BatchSource for Breaks {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        if self.left == 0 {
            return Err(Error::new(ErrorKind::Io, "the source broke"));
        }
        self.left -= 1;
        self.batches.pop().map_or(Ok(None), |mut batch| batch.next_batch())
    }
}

fn partners(table: &Table, id: &str) -> usize {
    answers(table, Side::Id, id).unwrap().len()
}

fn run(table: &Table, mut source: Breaks) -> Result<()> {
    load_from(table, &mut source)
}

#[test]
fn a_load_that_broke_goes_on_where_it_ended() {
    let beside = fresh(KEYSPACE);
    let table = open(KEYSPACE).table_with(&"t".parse().unwrap(), &TableOptions::default()).unwrap();
    // Two chunks of 50,000 rows are written, 20,000 rows are not.
    assert_eq!(run(&table, Breaks::after(12)).unwrap_err().to_string(), "the source broke");
    assert_eq!(beside.count(&format!("{KEYSPACE}.idmatch_loads")), 2);
    assert_eq!((partners(&table, "id0"), partners(&table, "id129999")), (1, 0));
    // What is gone from the servers shows which rows are written again: of the first chunk the rows that
    // are looked for are there, of the second they are not.
    for ends in ["by_id", "by_partner_id"] {
        beside.truncate(KEYSPACE, ends);
    }
    let looked_for: Vec<_> = (0..16).map(|n| rows()[n * 50_000 / 16].clone()).collect();
    upsert(&table, &looked_for);
    run(&table, Breaks::after(usize::MAX)).unwrap();
    let asked = ["id0", "id1", "id49999", "id50000", "id99999", "id129999"];
    let there = asked.map(|id| partners(&table, id));
    assert_eq!(there, [1, 0, 0, 1, 1, 1]);
    assert_eq!(beside.count(&format!("{KEYSPACE}.idmatch_loads")), 0);
    // One that ended is not remembered.
    run(&table, Breaks::after(usize::MAX)).unwrap();
    assert_eq!(asked.map(|id| partners(&table, id)), [1; 6]);
    assert_eq!(table.verify().unwrap(), []);
}
