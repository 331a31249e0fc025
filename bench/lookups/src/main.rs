//! Times single lookups in a store, hot, one at a time on one thread.
//!
//! `lookups STORE TABLE KEYS` asks for every id of the file KEYS (one a line) once to warm up,
//! then over and over, and prints one JSON document with the median and the 99th percentile
//! of each question, in seconds.

use idmatch_engine::EngineStore;
use idmatch_model::{Side, TableName, Window};
use idmatch_store::{OpenTables, Table};
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
        "latest_partner_id": time(&keys, |key| latest(&*table, key))?,
        "partner_ids": time(&keys, |key| all(&*table, key))?,
    });
    println!("{document:#}");
    Ok(())
}

/// Asks for the newest answer only; returns how many there were.
fn latest(table: &Table, key: &str) -> Result<usize, Failure> {
    let mut answers = table.answers(Side::Id, key, Window::ALL)?;
    Ok(usize::from(black_box(answers.next_answer()?).is_some()))
}

/// Reads all answers; returns how many there were.
fn all(table: &Table, key: &str) -> Result<usize, Failure> {
    let mut answers = table.answers(Side::Id, key, Window::ALL)?;
    let mut count = 0;
    while black_box(answers.next_answer()?).is_some() {
        count += 1;
    }
    Ok(count)
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
