//! Steps `growth` and `compare`: many upserts and a rest; the same rows as a Parquet file, so that a
//! fresh store can be loaded with them; and the join with both stores.

use crate::rows::Rows;
use crate::writers::{Plan, Progress, write};
use crate::{Failure, Options, joins, watch};
use idmatch_engine::MemoryLimits;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;

pub(crate) fn growth(options: &Options) -> Result<Value, Failure> {
    let rows = options.rows()?;
    let count: u64 = options.number("rows")?;
    let (store, table) = options.open(MemoryLimits::default())?;
    let root = options.store()?;
    let before = watch::state(&table, &root);
    let plan = Plan {
        first: 0,
        threads: options.number_or("threads", 4)?,
        batch: 1_000,
        rows: Some(count),
        seconds: None,
        rows_per_second: None,
    };
    let watch = watch::Watch::start(&table, &root);
    let written = write(&table, &rows, &Progress::new(plan))?;
    let peak = watch.peak();
    let after = watch::state(&table, &root);
    let idle_after = watch::wait_until_idle(&root);
    let series = watch.end();
    let idle = watch::state(&table, &root);
    store.end_writing()?;
    dump(&rows, count, Path::new(options.text("upserted")?))?;
    let (new, repeated) = distinct(&rows, count);
    Ok(json!({
        "written": written.json(), "distinct_new": new, "distinct_repeated": repeated,
        "private_bytes": peak, "before": before,
        "after": after, "idle": idle, "idle_after_seconds": idle_after,
        "store_bytes": watch::store_bytes(&root), "series": series,
    }))
}

/// The join with a store and with a fresh one.
pub(crate) fn compare(options: &Options) -> Result<Value, Failure> {
    let limits = MemoryLimits::default();
    let grown = options.open(limits)?.1;
    let fresh = options.open_at(Path::new(options.text("fresh")?), limits)?.1;
    let [grown, fresh] = joins::in_alternation([&grown, &fresh], &options.population()?)?;
    Ok(
        json!({ "join": grown.json(), "fresh_join": fresh.json(), "join_ratio": grown.median() / fresh.median() }),
    )
}

fn dump(rows: &Rows, count: u64, path: &Path) -> Result<(), Failure> {
    let settings = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let settings = settings.set_dictionary_enabled(false).build();
    let schema = rows.batch(0, 1)?.schema();
    let mut writer = ArrowWriter::try_new(File::create(path)?, schema, Some(settings))?;
    for first in (0..count).step_by(1 << 16) {
        writer.write(&rows.batch(first, (count - first).min(1 << 16))?)?;
    }
    writer.close()?;
    Ok(())
}

/// How many pairs of the upserted ones were new, and how many were in the table.
fn distinct(rows: &Rows, count: u64) -> (u64, u64) {
    let mut seen = vec![false; rows.pairs.len() as usize];
    let (mut new, mut repeated) = (0, 0);
    for row in (0..count).map(|number| rows.row(number)) {
        match row.repeats {
            // At least one half of it is a random number of 64 bits or more.
            None => new += 1,
            Some(pair) if !std::mem::replace(&mut seen[pair as usize], true) => repeated += 1,
            Some(_) => {}
        }
    }
    (new, repeated)
}
