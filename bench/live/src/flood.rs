//! Steps `batches` and `singles`: upserts as fast as they can be.

use crate::writers::{Plan, Progress, write};
use crate::{Failure, Options, watch};
use idmatch_engine::MemoryLimits;
use serde_json::{Value, json};

pub(crate) fn batches(options: &Options) -> Result<Value, Failure> {
    flood(options, 4, 1_000)
}

pub(crate) fn singles(options: &Options) -> Result<Value, Failure> {
    flood(options, 32, 1)
}

fn flood(options: &Options, threads: u64, batch: u64) -> Result<Value, Failure> {
    let rows = options.rows()?;
    let (store, table) = options.open(MemoryLimits::default())?;
    let root = options.store()?;
    let plan = Plan {
        first: 0,
        threads: options.number_or("threads", threads)?,
        batch: options.number_or("batch", batch)?,
        rows: None,
        seconds: Some(options.number("seconds")?),
        rows_per_second: None,
    };
    let before = watch::state(&table, &root);
    let watch = watch::Watch::start(&table, &root);
    let written = write(&table, &rows, &Progress::new(plan))?;
    let after = watch::state(&table, &root);
    let peak = watch.peak();
    let idle_after = watch::wait_until_idle(&root);
    let idle = watch::state(&table, &root);
    let series = watch.end();
    store.end_writing()?;
    Ok(json!({
        "threads": plan.threads, "batch": plan.batch, "written": written.json(),
        "private_bytes": peak, "before": before, "after": after, "idle": idle,
        "idle_after_seconds": idle_after, "series": series,
    }))
}
