//! Times single lookups in a store, hot, one at a time on one thread.
//!
//! `lookups STORE TABLE KEYS` asks for every id of the file KEYS (one a line) once to warm up,
//! then over and over, and prints one JSON document with the median and the 99th percentile
//! of each question, in seconds.

use idmatch_engine::EngineStore;
use idmatch_model::{Side, TableName};
use idmatch_store::{Lookup, OpenTables, Table};
use serde_json::{Value, json};
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

const CALLS: usize = 200_000;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, table, keys] = arguments.as_slice() else {
        return Err("usage: lookups STORE TABLE KEYS".into());
    };
    let store = EngineStore::open(Path::new(store))?;
    let table = store.table(&table.parse::<TableName>()?)?;
    let keys = std::fs::read_to_string(keys)?;
    let keys: Vec<&str> = keys.lines().collect();
    if keys.is_empty() {
        return Err("there are no keys".into());
    }
    let document = json!({
        "latest_partner_id": time(&keys, |key| ask(&table, key, 1))?,
        "partner_ids": time(&keys, |key| ask(&table, key, usize::MAX))?,
    });
    println!("{document:#}");
    Ok(())
}

/// Asks for the newest answers of a key; returns how many there were.
fn ask(table: &Table, key: &str, limit: usize) -> Result<usize, Failure> {
    let lookup = Lookup { limit, ..Lookup::by(Side::Id) };
    Ok(black_box(table.lookup_many(&[key], lookup)?).of(0).count())
}

/// Times a question; every key must have an answer.
fn time(keys: &[&str], ask: impl Fn(&str) -> Result<usize, Failure>) -> Result<Value, Failure> {
    for key in keys {
        if ask(key)? == 0 {
            return Err(format!("{key} has no answer").into());
        }
    }
    let mut nanoseconds = Vec::with_capacity(CALLS);
    for key in keys.iter().cycle().take(CALLS) {
        let began = Instant::now();
        black_box(ask(key)?);
        nanoseconds.push(began.elapsed().as_nanos() as f64);
    }
    nanoseconds.sort_by(f64::total_cmp);
    Ok(json!({
        "calls": CALLS,
        "median": nanoseconds[CALLS / 2] / 1e9,
        "p99": nanoseconds[CALLS * 99 / 100] / 1e9,
    }))
}
