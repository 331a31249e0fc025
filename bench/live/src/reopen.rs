//! Steps `fill` and `reopen`: a journal as long as it gets, and what opening the store takes then.

use crate::rows::{Rows, hex};
use crate::writers::{Plan, Progress, write};
use crate::{Failure, Options, print, watch};
use idmatch_engine::MemoryLimits;
use idmatch_model::{Side, Window};
use idmatch_store::Table;
use serde_json::{Value, json};
use std::time::Instant;

const CHUNK_ROWS: u64 = 50_000;

/// Upserts until the memtables hold what they may, prints how much that is, and waits.
pub(crate) fn fill(options: &Options) -> Result<Value, Failure> {
    let rows = options.rows()?;
    let usual = MemoryLimits::default();
    // A file of the journal ends at half of what memtables may take. So none does here.
    let limits = MemoryLimits { memtable_bytes: usual.memtable_bytes * 5 / 2, ..usual };
    let (_store, table) = options.open(limits)?;
    let mut first = 0;
    while table.stats()?.memtable_bytes < usual.memtable_bytes as u64 {
        let (threads, batch) = (4, 1_000);
        let plan = Plan {
            first,
            threads,
            batch,
            rows: Some(CHUNK_ROWS),
            seconds: None,
            rows_per_second: None,
        };
        first += write(&table, &rows, &Progress::new(plan))?.rows;
    }
    let mut full = watch::state(&table, &options.store()?);
    full["acknowledged"] = first.into();
    print(&full);
    loop {
        std::thread::park();
    }
}

/// Opens the store that was left so.
pub(crate) fn reopen(options: &Options) -> Result<Value, Failure> {
    let rows = options.rows()?;
    let acknowledged: u64 = options.number("rows")?;
    let root = options.store()?;
    let journal_bytes = watch::bytes_in(&root.join("journal"));
    let began = Instant::now();
    let (store, table) = options.open(MemoryLimits::default())?;
    let open = began.elapsed().as_secs_f64();
    // Even rows are new: only the journal has them.
    let found = |row: u64| is_there(&table, &rows, row);
    let all = found(acknowledged - 2)?;
    let lookup = began.elapsed().as_secs_f64() - open;
    let memtable_rows = table.stats()?.memtable_rows;
    let all = all && found(0)? && found(acknowledged / 4 * 2)? && memtable_rows >= acknowledged;
    if !all {
        return Err("an acknowledged row is lost".into());
    }
    let batch = rows.batch(1 << 40, 1)?;
    let upserting = Instant::now();
    rows.upsert(&table, batch)?;
    let upsert = upserting.elapsed().as_secs_f64();
    let after = watch::state(&table, &root);
    store.end_writing()?;
    Ok(json!({
        "journal_bytes": journal_bytes, "memtable_rows": memtable_rows,
        "open": open, "first_lookup": lookup, "first_upsert": upsert,
        "open_and_lookup": open + lookup, "open_and_upsert": open + upsert, "after": after,
    }))
}

fn is_there(table: &Table, rows: &Rows, number: u64) -> Result<bool, Failure> {
    let row = rows.row(number);
    let partner_id = row.partner_id.to_string();
    let answers = table.answers(Side::Id, hex(row.id, &mut [0; 32]), Window::ALL)?;
    Ok(answers.of(0).any(|(answer, _)| answer == partner_id))
}
