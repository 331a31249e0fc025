//! Single lookups through idmatch itself, from Rust: what it adds to the driver, without what Python does.

use crate::Failure;
use crate::flight::Answer;
use crate::repeat::RunLimits;
use crate::tables::TABLE;
use arrow_array::StringArray;
use hdrhistogram::Histogram;
use idmatch_cql::{CqlStore, Settings};
use idmatch_model::{Side, Window};
use idmatch_store::{OpenTables, Table};
use scylla::value::CqlTimestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

/// Asks for one id after the other. idmatch has a runtime of its own, and is called from a thread that
/// has none.
pub(crate) async fn lookups(
    address: String,
    ids: StringArray,
    limits: RunLimits,
) -> Result<Value, Failure> {
    let open = move || -> Result<_, Failure> {
        let store = CqlStore::open(Settings::parse(&address, &|_| None)?)?;
        Ok(store.table(&TABLE.parse()?)?)
    };
    let table = tokio::task::spawn_blocking(open).await??;
    let ids = Arc::new(ids);
    let ask = async || {
        let (table, ids) = (table.clone(), Arc::clone(&ids));
        tokio::task::spawn_blocking(move || one_by_one(&table, &ids)).await?
    };
    let warm = limits.warm_up(ask).await?;
    Ok(json!({ "warm_up": warm, "runs": limits.repeat(ask).await? }))
}

fn one_by_one(table: &Table, ids: &StringArray) -> Result<Value, Failure> {
    let mut taken = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let mut sum = Answer::default();
    for id in ids.iter().flatten() {
        let began = Instant::now();
        let answers = table.answers(Side::Id, id, Window::ALL)?;
        answers.of(0).for_each(|(_, at)| sum.add(CqlTimestamp(at.millis_i64())));
        taken.saturating_record(began.elapsed().as_nanos() as u64);
    }
    Ok(crate::reads::lookups(sum, &taken))
}
