//! Step `mixed`: the join and single lookups while rows are upserted at a fixed rate.

use crate::joins::{self, Joins};
use crate::lookups::{self, Looked};
use crate::rows::Rows;
use crate::writers::{Plan, Progress, Written, write};
use crate::{Failure, Options, watch};
use idmatch_engine::MemoryLimits;
use idmatch_store::Table;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const LOOKUPS_PER_SECOND: f64 = 10_000.0;
const ALONE: Duration = Duration::from_secs(5);

pub(crate) fn mixed(options: &Options) -> Result<Value, Failure> {
    let rows = options.rows()?;
    let population = options.population()?;
    let seconds: f64 = options.number("seconds")?;
    let (store, table) = options.open(MemoryLimits::default())?;
    let root = options.store()?;
    let before = watch::state(&table, &root);
    let quiet = joins::hot(&table, &population)?;
    let lookups_alone = while_looking_up(&table, &rows, None, || {
        thread::sleep(ALONE);
        Ok(())
    })?;
    let mut plan = Plan {
        first: 0,
        threads: options.number_or("threads", 2)?,
        batch: 1_000,
        rows: None,
        seconds: None,
        rows_per_second: Some(options.number_or("rows-per-second", 100_000.0)?),
    };
    let watch = watch::Watch::start(&table, &root);
    let (under_upserts, written) = while_writing(&table, &rows, plan, |_| {
        joins::for_seconds(&table, &population, seconds / 2.0)
    })?;
    plan.first = 1 << 40;
    let ((under_both, looked), written_too) = while_writing(&table, &rows, plan, |progress| {
        while_looking_up(&table, &rows, Some(progress), || {
            joins::for_seconds(&table, &population, seconds / 2.0)
        })
    })?;
    let quiet_after = joins::hot(&table, &population)?;
    let after = watch::state(&table, &root);
    let peak = watch.peak();
    let series = watch.end();
    let ratio = |joins: &Joins| joins.median() / quiet.median();
    let document = json!({
        "asked_rows_per_second": plan.rows_per_second,
        "asked_lookups_per_second": LOOKUPS_PER_SECOND,
        "join_quiet": quiet.json(), "join_quiet_after": quiet_after.json(),
        "lookups_alone": lookups_alone.1.json(),
        "join_under_upserts": under_upserts.json(), "join_under_upserts_ratio": ratio(&under_upserts),
        "upserts": written.json(),
        "join_under_both": under_both.json(), "join_under_both_ratio": ratio(&under_both),
        "upserts_under_both": written_too.json(), "lookups": looked.json(),
        "private_bytes": peak, "before": before, "after": after, "series": series,
    });
    store.end_writing()?;
    Ok(document)
}

fn while_writing<T>(
    table: &Table,
    rows: &Rows,
    plan: Plan,
    work: impl FnOnce(&Progress) -> Result<T, Failure>,
) -> Result<(T, Written), Failure> {
    let progress = Progress::new(plan);
    thread::scope(|scope| {
        let writing = scope.spawn(|| write(table, rows, &progress));
        let done = work(&progress);
        progress.stop();
        let written = writing.join().map_err(|_| "the writers panicked")??;
        Ok((done?, written))
    })
}

fn while_looking_up<T>(
    table: &Table,
    rows: &Rows,
    upserted: Option<&Progress>,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, Looked), Failure> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let looking =
            scope.spawn(|| lookups::to_schedule(table, rows, upserted, LOOKUPS_PER_SECOND, &stop));
        let done = work();
        stop.store(true, Relaxed);
        let looked = looking.join().map_err(|_| "the lookups panicked")??;
        Ok((done?, looked))
    })
}
